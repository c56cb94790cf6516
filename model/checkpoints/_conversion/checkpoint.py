"""Read a model from a folder in the format of transformers or in our own."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import torch
import yaml
from torch import Tensor, nn

from clozeline.configuration.config import adapter_of
from clozeline.errors import ConfigurationError, WeightsError, join_names
from clozeline.files import file_hash
from clozeline.model.build import Model
from clozeline.model.checkpoints._conversion.import_record import (
    CONFIG,
    IMPORT_RECORD,
    read_import_record,
)
from clozeline.model.checkpoints._conversion.task_heads import label_note
from clozeline.model.checkpoints._conversion.tensor_files import (
    check_values,
    read_checkpoint_json,
    read_metadata,
    read_tensors,
)
from clozeline.model.checkpoints._conversion.tensor_layouts import (
    exported_shapes,
    import_tensors,
    parameter_shapes,
)
from clozeline.model.checkpoints._conversion.type_selection import find_class_map
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.quantization import has_integers, holds_integers, restore_integers

MODEL: Final = "model.yaml"
WEIGHTS: Final = "model.safetensors"
UNREAD: Final = "unread."
"""Prefix of the names of `Checkpoint.unread` in a folder of our own format."""
_IGNORED_KEYS: Final = frozenset(
    {
        *(
            "_name_or_path",
            "architectures",
            "dtype",
            "torch_dtype",
            "transformers_version",
            "model_type",
            "vocab_size",
        ),
        *(
            "use_cache",
            "output_attentions",
            "output_hidden_states",
            "return_dict",
            "is_encoder_decoder",
        ),
        *(
            "id2label",
            "label2id",
            "problem_type",
            "language",
            "task_specific_params",
            "pruned_heads",
            "n_ctx",
        ),
        *(
            "gradient_checkpointing",
            "chunk_size_feed_forward",
            "reorder_and_upcast_attn",
            "pretraining_tp",
        ),
        *("num_hidden_layers", "initializer_factor", "initializer_range"),
        *("classifier_dropout", "classifier_dropout_prob", "qa_dropout", "seq_classif_dropout"),
        *("encoder_layerdrop", "decoder_layerdrop"),
        *(
            "summary_type",
            "summary_use_proj",
            "summary_activation",
            "summary_proj_to_labels",
            "summary_first_dropout",
        ),
        *("summary_last_dropout", "quantization_config"),
        *(
            "classifier_pooling",
            "deterministic_flash_attn",
            "reference_compile",
            "repad_logits_with_grad",
        ),
        *("sparse_prediction", "sparse_pred_ignore_index"),
        *(
            "early_stopping",
            "max_length",
            "min_length",
            "num_beams",
            "no_repeat_ngram_size",
            "length_penalty",
        ),
    }
)
"""Keys of config.json that do not change the logits of an evaluation."""


@dataclass(frozen=True)
class Checkpoint:
    """A model with our names, and the metadata of its folder."""

    config: ModelConfig
    vocab_size: int
    """number of ids that the model predicts; rows of the token table unless the folder is a run"""
    tensors: Mapping[str, Tensor]
    """our parameters, in the dtype of the file; in a quantized folder, some are integers of
    torchao"""
    token_ids: Mapping[str, Any]
    """`pad_token_id`, `decoder_start_token_id` and so on"""
    model_type: str | None
    files: tuple[Path, ...]
    absent: tuple[str, ...] = ()
    """parameters of the head, if the folder only has the body"""
    notes: tuple[str, ...] = ()
    """messages about skipped tensors and keys"""
    unread: Mapping[str, Tensor] = field(default_factory=dict)
    """tensors, by transformers' names, that a transformers class saves but our model does not read:
    an export to this class contains them again"""
    trained: tuple[str, ...] = ()
    """parameters of the head that were trained with an imported adapter"""
    published: Mapping[str, str] = field(default_factory=dict)
    """texts of the config.json and generation_config.json that an export starts from"""


def read_checkpoint(folder: Path, *, strict: bool = False, quantized: bool = False) -> Checkpoint:
    """Read a folder of transformers (config.json) or of our own format (model.yaml).

    Heads that the type does not have are skipped, with a note; `strict` refuses them. Integer
    weights of torchao are refused, too, unless `quantized` is true: models can compute with them,
    but neither train nor convert them.

    Raises:
        ConfigurationError: the folder has neither file, or its model is not supported.
        WeightsError: tensors are damaged, unknown, missing, of a wrong shape, or contradict each
            other.
    """
    if (folder / MODEL).is_file():
        return _read_clozeline_folder(folder, quantized=quantized)
    if (folder / CONFIG).is_file():
        return _read_transformers_folder(folder, strict=strict, quantized=quantized)
    if (folder / IMPORT_RECORD).is_file():
        raise ConfigurationError(f"{folder / MODEL} is missing; import the model again")
    raise ConfigurationError(
        f"{folder}: not a model or run directory: expected config.json and weights, as "
        f"transformers writes them, or {MODEL}, as `clozeline import-model` writes it; a run has "
        "the folder checkpoints"
    )


def build_checkpoint(checkpoint: Checkpoint) -> Model:
    """Build the model on the tensors of a checkpoint, in evaluation mode.

    The weights are in memory only once, so do not change them in place. Half-precision weights are
    converted to fp32.

    Raises:
        WeightsError: the folder has no head.
    """
    if checkpoint.absent:
        raise WeightsError(
            f"the checkpoint has no head: {join_names(checkpoint.absent)} are missing"
        )

    model = Model(checkpoint.config, checkpoint.vocab_size)
    quantized = any(map(holds_integers, checkpoint.tensors.values()))  # their products are fp32
    dtypes = (torch.float32,) if quantized else (torch.float32, torch.float64)
    # several modules have a tied parameter, which has one name
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    parameters: dict[str, nn.Parameter] = {}

    for module in list(model.modules()):
        for key, parameter in list(module.named_parameters(recurse=False, remove_duplicate=False)):
            name = names[id(parameter)]
            if name not in parameters:
                tensor = checkpoint.tensors[name]
                wide = tensor if tensor.dtype in dtypes else tensor.float()
                parameters[name] = nn.Parameter(wide, requires_grad=not holds_integers(tensor))
            setattr(module, key, parameters[name])

    return model.eval()


def fill_absent_heads(checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint with zeros for missing heads, for tools that only read the body."""
    if not checkpoint.absent:
        return checkpoint
    shapes = parameter_shapes(checkpoint.config, checkpoint.vocab_size)
    zeros = {name: torch.zeros(tuple(shapes[name])) for name in checkpoint.absent}
    return replace(checkpoint, tensors={**checkpoint.tensors, **zeros}, absent=())


def _read_clozeline_folder(folder: Path, *, quantized: bool) -> Checkpoint:
    try:
        keys = yaml.safe_load((folder / MODEL).read_text(encoding="utf-8"))
        config: ModelConfig = adapter_of(ModelConfig).validate_python(keys)
    except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigurationError(
            f"{folder / MODEL}: not a valid configuration of a model: {reason}; import the model "
            "again"
        ) from error

    record = read_import_record(folder / IMPORT_RECORD)
    stored, files = read_tensors(folder)
    if has_integers(metadata := read_metadata(files)):
        stored = _restore(stored, metadata, folder / MODEL, quantized=quantized)
    unread = {
        name.removeprefix(UNREAD): tensor
        for name, tensor in stored.items()
        if name.startswith(UNREAD)
    }

    tensors = {name: tensor for name, tensor in stored.items() if not name.startswith(UNREAD)}
    # the files must not have changed since the import
    for path, digest in ((folder / MODEL, record.config), (files[0], record.weights)):
        if (actual := file_hash(path)) != digest:
            reason = "it was changed after the import; import the model again"
            raise WeightsError(f"{path}: expected xxh3-128 {digest}, got {actual}: {reason}")

    rows = record.vocab_size
    absent = record.absent
    shapes = {
        name: list(shape)
        for name, shape in parameter_shapes(config, rows).items()
        if name not in absent
    }

    check_shapes(tensors, shapes, str(folder / WEIGHTS))
    check_values(stored, str(folder / WEIGHTS))
    ids = record.token_ids
    trained = tuple(record.trained)
    return Checkpoint(
        config,
        rows,
        tensors,
        ids,
        record.model_type,
        tuple(files),
        tuple(absent),
        (),
        unread,
        trained,
    )


def _read_transformers_folder(folder: Path, *, strict: bool, quantized: bool) -> Checkpoint:
    config_json = read_checkpoint_json(folder / CONFIG)

    try:
        key_map = find_class_map(config_json)
    except ConfigurationError as error:
        raise ConfigurationError(f"{folder / CONFIG}: {error}") from error

    stored, files = read_tensors(folder)
    if "quantization_config" in config_json:
        stored = _restore(stored, read_metadata(files), folder / CONFIG, quantized=quantized)
    config = key_map.configuration.read(config_json, stored)
    rows = key_map.configuration.vocab_size(config_json)

    # rename the tensors of the file to the names in the transformers class with these heads
    where = str(folder)
    shapes = parameter_shapes(config, rows)
    expected = exported_shapes(key_map, config, shapes)
    constants = key_map.tensors.constants_in_class(config, rows)
    renaming = key_map.tensors.renaming({**expected, **constants}, config)
    renamed = renaming.apply(key_map.tensors.tensors_of_class(stored, config), where, strict=strict)
    check_values(renamed.tensors | renamed.skipped, where)

    # set aside copies of tied tensors, constants, and tensors that our model does not read
    tensors = _drop_copies(
        renamed.tensors, key_map.tensors.ties_in_class(config), where, config.tied
    )
    base = key_map.tensors.base
    unread = {name: tensors[name] for name in key_map.tensors.copies(config) if name in tensors}
    constants_in_file = {name: value for name, value in constants.items() if name in tensors}
    for name, value in constants_in_file.items():
        if tensors[name].dtype != value.dtype or not torch.equal(tensors[name], value):
            unread[name] = tensors[name]

    skipped = {
        name if name.startswith(base) else base + name: tensor
        for name, tensor in renamed.skipped.items()
    }

    for body_alone in (True, False):
        unread |= {
            name: skipped[name]
            for name in key_map.tensors.names_to_keep(skipped, config, body_alone=body_alone)
        }

    tensors = {
        name: tensor for name, tensor in tensors.items() if name not in {**constants, **unread}
    }

    # a checkpoint has all parameters of the head, or none
    head = [name for name in shapes if name.startswith("heads.")]
    absent = (
        []
        if any(target.name in tensors for target in key_map.tensors.targets(config, head).values())
        else head
    )

    stored_shapes = {name: shape for name, shape in shapes.items() if name not in absent}
    check_shapes(tensors, exported_shapes(key_map, config, stored_shapes), where)

    # notes about what was skipped, and about what is missing
    notes = (
        [f"skipped, not a part of the model: {join_names(renamed.skipped)}"]
        if renamed.skipped
        else []
    )

    if other_heads := renaming.group_heads(renamed.other_heads):
        tensors_of = (
            f"{len(renamed.other_heads)} tensors of heads that {key_map.model_type} does not have"
        )
        notes.append(f"skipped, {tensors_of}: {join_names(other_heads)}")

    notes += [f"the head is missing: {join_names(absent)}"] if absent else []
    read = key_map.configuration.keys_read | _IGNORED_KEYS
    if unknown := sorted(
        key for key in config_json if key not in read and not key.endswith("_token_id")
    ):
        notes.append(f"keys of config.json that were not read: {', '.join(unknown)}")

    notes += label_note(config_json) if key_map.classes.task(config) else []
    ids = {
        key: value
        for key, value in config_json.items()
        if key.endswith("_token_id") and value is not None
    }

    converted = import_tensors(key_map, config, tensors, stored_shapes)
    return Checkpoint(
        config,
        rows,
        converted,
        ids,
        key_map.model_type,
        tuple(files),
        tuple(absent),
        tuple(notes),
        unread,
    )


def _restore(
    stored: dict[str, Tensor], metadata: dict[str, str], described: Path, *, quantized: bool
) -> dict[str, Tensor]:
    """Return the tensors of a file with integers of torchao; errors name the file `described`."""
    if not quantized:
        raise ConfigurationError(
            f"{described}: has integer weights, which cannot be trained or converted; use the "
            "model that they were made from"
        )

    try:
        return restore_integers(stored, metadata)
    except ValueError as error:
        raise WeightsError(
            f"{described}: its integers cannot be read as those of torchao: {error}; quantize the "
            "model again"
        ) from error


def _drop_copies(
    tensors: dict[str, Tensor], ties: Mapping[str, str], where: str, tied: bool
) -> dict[str, Tensor]:
    """Return the tensors without second copies of tied ones.

    Raises:
        WeightsError: two copies differ.
    """
    # a copy must equal the tensor that is kept
    unique = {name: tensor for name, tensor in tensors.items() if name not in ties}

    for copy, name in ties.items():
        if copy in tensors and not torch.equal(
            unique.setdefault(name, tensors[copy]), tensors[copy]
        ):
            remedy = "a model with a separate token table for each of them is not supported"
            if tied:
                remedy = (
                    "set tie_word_embeddings to false in config.json if the model has both, or "
                    "download it again"
                )
            raise WeightsError(
                f"{where}: {copy} and {name} are one tensor in this model, but they differ; "
                f"{remedy}"
            )

    return unique


def check_shapes(
    tensors: Mapping[str, Tensor], expected: Mapping[str, list[int]], where: str
) -> None:
    """Raise WeightsError unless the tensors have exactly these names and shapes."""
    # the names must agree
    if missing := expected.keys() - tensors.keys():
        raise WeightsError(f"{where}: {len(missing)} tensors are missing: {join_names(missing)}")
    if unknown := tensors.keys() - expected.keys():
        raise WeightsError(
            f"{where}: {len(unknown)} tensors that the model does not have: {join_names(unknown)}"
        )
    # so must the shapes
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
    if wrong := [
        f"{name}: expected {s}, got {shapes[name]}"
        for name, s in expected.items()
        if shapes[name] != s
    ]:
        raise WeightsError(
            f"{where}: {len(wrong)} tensors have another shape than config.json implies: "
            f"{join_names(wrong, 4)}"
        )
