"""Models as transformers stores them: config.json and weights, which may be integers of torchao."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError, WeightsError, join_names
from clozeline.extensions.published.conversion.published_texts import CONFIG, store_published
from clozeline.extensions.published.conversion.task_heads import label_note
from clozeline.extensions.published.conversion.tensor_files import has_tensors, read_tensors
from clozeline.extensions.published.conversion.tensor_layouts import exported_shapes, import_tensors
from clozeline.extensions.published.conversion.type_selection import find_class_map, find_form
from clozeline.model.checkpoints.checkpoint import Checkpoint, check_shapes, parameter_shapes
from clozeline.model.checkpoints.import_record import read_checkpoint_json
from clozeline.model.checkpoints.reading import restore
from clozeline.model.checkpoints.sources import ModelSource, NewModel
from clozeline.model.checkpoints.tensor_files import check_values, read_metadata
from clozeline.model.configuration.head import HeadOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.tools.start.multirun.runner import run_step

_IGNORED_KEYS: Final = frozenset(
    (
        "_name_or_path",
        "architectures",
        "dtype",
        "torch_dtype",
        "transformers_version",
        "model_type",
        "vocab_size",
        "use_cache",
        "output_attentions",
        "output_hidden_states",
        "return_dict",
        "is_encoder_decoder",
        "id2label",
        "label2id",
        "problem_type",
        "language",
        "task_specific_params",
        "pruned_heads",
        "n_ctx",
        "gradient_checkpointing",
        "chunk_size_feed_forward",
        "reorder_and_upcast_attn",
        "pretraining_tp",
        "num_hidden_layers",
        "initializer_factor",
        "initializer_range",
        "classifier_dropout",
        "classifier_dropout_prob",
        "qa_dropout",
        "seq_classif_dropout",
        "encoder_layerdrop",
        "decoder_layerdrop",
        "summary_type",
        "summary_use_proj",
        "summary_activation",
        "summary_proj_to_labels",
        "summary_first_dropout",
        "summary_last_dropout",
        "quantization_config",
        "classifier_pooling",
        "deterministic_flash_attn",
        "reference_compile",
        "repad_logits_with_grad",
        "sparse_prediction",
        "sparse_pred_ignore_index",
        "early_stopping",
        "max_length",
        "min_length",
        "num_beams",
        "no_repeat_ngram_size",
        "length_penalty",
    )
)
"""Keys of config.json that do not change the logits of an evaluation."""

PEFT_CONFIG: Final = "adapter_config.json"
_TASK_LOADERS: Final = {
    "SEQ_CLS": "SequenceClassification",
    "TOKEN_CLS": "TokenClassification",
    "QUESTION_ANS": "QuestionAnswering",
    "CAUSAL_LM": "CausalLM",
    "SEQ_2_SEQ_LM": "Seq2SeqLM",
}
"""Endings of the auto class for each of peft's task types; without one, it is that of a masked
language model."""


class TransformersFolderSource(ModelSource):
    """Folders of transformers."""

    expected = "config.json and weights, as transformers writes them"

    def holds(self, folder: Path) -> bool:
        return (folder / CONFIG).is_file() or (folder / PEFT_CONFIG).is_file()

    def read(self, folder: Path, *, strict: bool, quantized: bool) -> Checkpoint:
        if (folder / PEFT_CONFIG).is_file() and not has_tensors(folder):
            raise ConfigurationError(_explain_merge(folder))
        config_json = read_checkpoint_json(folder / CONFIG)

        with _naming(folder / CONFIG):
            key_map = find_class_map(config_json)
        stored, files = read_tensors(folder)
        if "quantization_config" in config_json:
            stored = restore(stored, read_metadata(files), folder / CONFIG, quantized=quantized)
        with _naming(folder / CONFIG):
            config = key_map.configuration.read(config_json, stored)
            rows = key_map.configuration.vocab_size(config_json)

        # rename the tensors of the file to the names in the transformers class with these heads
        where = str(folder)
        shapes = parameter_shapes(config, rows)
        expected = exported_shapes(key_map, config, shapes)
        constants = key_map.tensors.constants_in_class(config, rows)
        renaming = key_map.tensors.renaming({**expected, **constants}, config)
        renamed = renaming.apply(
            key_map.tensors.tensors_of_class(stored, config), where, strict=strict
        )
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
            if any(
                target.name in tensors for target in key_map.tensors.targets(config, head).values()
            )
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
            count = f"{len(renamed.other_heads)} tensors of heads"
            notes.append(
                f"skipped, {count} that {key_map.model_type} does not have: "
                f"{join_names(other_heads)}"
            )

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

    def keep_origin(self, source: Path, run: Path) -> None:
        store_published(source, run)

    def find_head(self, config: ModelConfig, token_ids: Mapping[str, object]) -> HeadOptions | None:
        try:
            form, key_map = find_form(config, token_ids)
            return key_map.task_head(form, token_ids)
        except ConfigurationError:  # no class can hold the body
            return None

    def describe_export(self, model: NewModel) -> list[str]:
        # it imports what reads runs
        from clozeline.extensions.published.export_plan import plan_of_new_model

        return plan_of_new_model(model).lines()

    def export_run(self, run: Path, output: Path) -> None:
        if output.exists():
            print(f"{output} exists: to export the model again, remove it")
        else:
            run_step("clozeline", "export-model", run, output)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file in errors about its keys."""
    try:
        yield
    except (ConfigurationError, TypeError, ValueError, LookupError, AttributeError) as error:
        named = str(error).removeprefix("config.json ")
        raise ConfigurationError(f"{path}: {named}") from error


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


def _explain_merge(folder: Path) -> str:
    """Say how peft merges an adapter into its base, which is then a folder of transformers."""
    keys = read_checkpoint_json(folder / PEFT_CONFIG)
    where = f"{folder / PEFT_CONFIG}: {keys.get('peft_type')}: expected a model, got an adapter"
    if "num_virtual_tokens" in keys:
        return f"{where} of vectors, which peft cannot merge: train model.adapter on its base"
    task = _TASK_LOADERS.get(str(keys.get("task_type")), "MaskedLM")
    loader = (keys.get("auto_mapping") or {}).get("base_model_class", f"AutoModelFor{task}")
    base = keys.get("base_model_name_or_path") or "BASE"
    merged = f"{folder}-merged"
    merge = f"peft.PeftModel.from_pretrained(base, {str(folder)!r}).merge_and_unload()"
    return (
        f"{where} of peft; merge it in Python, with num_labels=N after the base if it has N "
        f"classes, and give {merged}:\n"
        "  import peft, transformers\n"
        f"  base = transformers.{loader}.from_pretrained({base!r})\n"
        f"  {merge}.save_pretrained({merged!r})"
    )
