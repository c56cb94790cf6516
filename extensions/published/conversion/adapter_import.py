"""Import an adapter in peft's format onto a base model, with the head trained with it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError, WeightsError, join_names
from clozeline.extensions.published.conversion.adapter_export import (
    HEAD_KEYS,
    TASK_TYPES,
    check_prefix,
    check_prompt,
)
from clozeline.extensions.published.conversion.key_map import KeyMap
from clozeline.extensions.published.conversion.tables import Target
from clozeline.extensions.published.conversion.task_heads import endings
from clozeline.extensions.published.conversion.tensor_files import read_tensor_file
from clozeline.extensions.published.conversion.tensor_layouts import (
    Update,
    export_tensors,
    exported_shapes,
    import_tensors,
    linear_maps_of_class,
    split_update,
)
from clozeline.extensions.published.conversion.type_selection import find_form
from clozeline.model.adapters._adapter import matches
from clozeline.model.adapters.prefix import Prefix
from clozeline.model.adapters.prompt import Prompt
from clozeline.model.build import Model
from clozeline.model.checkpoints.checkpoint import Checkpoint, check_shapes, parameter_shapes
from clozeline.model.checkpoints.import_record import read_checkpoint_json
from clozeline.model.checkpoints.tensor_files import check_values, read_metadata
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.registries import ADAPTERS

PEFT_CONFIG: Final = "adapter_config.json"
_WEIGHTS_FILE: Final = "adapter_model.safetensors"
_A = ".lora_A.weight"
"""End of the tensor name of the factor A [rank, inputs]."""
_B = ".lora_B.weight"
"""End of the tensor name of the factor B [outputs, rank]."""
_READ_OR_NEUTRAL: Final = frozenset(
    (
        "peft_type",
        "task_type",
        "auto_mapping",
        "peft_version",
        "base_model_name_or_path",
        "revision",
        "inference_mode",
        "modules_to_save",
        "target_modules",
        "exclude_modules",
        "fan_in_fan_out",
        "layers_to_transform",
        "layers_pattern",
        "init_lora_weights",
        "r",
        "lora_alpha",
        "lora_dropout",
        "rank_pattern",
        "alpha_pattern",
        "use_rslora",
        "bias",
        "megatron_core",
        "loftq_config",
        "qalora_group_size",
        "runtime_config",
        "eva_config",
        "corda_config",
        "lora_ga_config",
        "ensure_weight_tying",
        "num_virtual_tokens",
        "token_dim",
        "num_transformer_submodules",
        "num_attention_heads",
        "num_layers",
        "prompt_tuning_init",
        "prompt_tuning_init_text",
        "tokenizer_name_or_path",
        "tokenizer_kwargs",
        "encoder_hidden_size",
        "prefix_projection",
        "init_weights",
    )
)
"""Keys that are read, or that do not change what a stored adapter computes; other keys must be
empty."""
_NEUTRAL_INITIALIZATIONS: Final = (None, True, False, "gaussian", "eva", "orthogonal")
"""Initializations of LoRA that do not change the weights of the base model."""


class _Folder(NamedTuple):
    """An adapter's folder, and the model that it is read for."""

    path: Path
    keys: Mapping[str, Any]
    tensors: dict[str, Tensor]
    """tensors by peft's names; a reader removes the tensors that it reads"""
    config: ModelConfig
    key_map: KeyMap
    modules: dict[str, dict[str, Target]]
    """our weights in each linear map of the transformers class, by the name of the map"""
    weights: Mapping[str, Tensor]
    """weights of the base model"""

    @property
    def where(self) -> str:
        return str(self.path / _WEIGHTS_FILE)


_Read: TypeAlias = tuple[dict[str, Any], dict[str, Tensor]]
"""The entry of `model.adapter`, and the adapter's parameters."""


def import_adapter(folder: Path, base: Checkpoint, *, model_type: str | None = None) -> Checkpoint:
    """Return the base model with an adapter that peft saved, and with the head trained with it.

    Args:
        folder: peft's folder, with adapter_config.json and adapter_model.safetensors.
        base: the model that the adapter was trained on.
        model_type: model type of transformers; None: the original one, or the first equivalent one.

    Raises:
        ConfigurationError: peft did not write the folder, or ours cannot compute its adapter.
        WeightsError: tensors are pickled, damaged, unknown, missing, or belong to another base.
    """
    if not (folder / PEFT_CONFIG).is_file():
        raise ConfigurationError(
            f"{folder}: expected a folder that peft saved, with {PEFT_CONFIG} and {_WEIGHTS_FILE}; "
            "choose that folder, or copy it again"
        )

    if base.config.adapter is not None or base.config.quantization is not None:
        raise ConfigurationError(
            f"{folder}: expected a base without an adapter, with floating-point weights: choose "
            "the model that the adapter was trained on"
        )

    keys = read_checkpoint_json(folder / PEFT_CONFIG)
    peft_type = keys.get("peft_type")
    if peft_type not in _READERS:
        expected = (
            f"expected {', '.join(sorted(_READERS))}; merge another adapter with peft and import "
            "the model"
        )
        raise ConfigurationError(
            f"{folder / PEFT_CONFIG}: peft_type: {expected}; got {peft_type!r}"
        )

    if unsupported := sorted(
        key for key, value in keys.items() if key not in _READ_OR_NEUTRAL and value
    ):
        key = unsupported[0]
        raise ConfigurationError(
            f"{folder / PEFT_CONFIG}: {key}: {keys[key]!r} changes what the adapter computes, and "
            "is not supported: merge the adapter with peft, and import the model"
        )
    # read the tensors: first those of the adapter, then those of the head
    _, key_map = find_form(base.config, base.token_ids, model_type or base.model_type)
    tensors, path = _read_weights(folder)
    prefix = "base_model." if "prompt_embeddings" in tensors else "base_model.model."
    tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    labels = json.loads(read_metadata([path]).get(HEAD_KEYS, "{}"))
    config = _with_task_head(base, key_map, keys.get("task_type"), tensors, folder, labels)
    modules = linear_maps_of_class(key_map, config, base.vocab_size)
    entry, adapter = _READERS[str(peft_type)](
        _Folder(folder, keys, tensors, config, key_map, modules, base.tensors)
    )
    config = replace(config, init_from=None, adapter=ADAPTERS.resolve(entry))
    heads, trained = _read_heads(config, key_map, base, tensors, str(folder / _WEIGHTS_FILE))
    shapes = parameter_shapes(config, base.vocab_size)
    name = f"adapters.{entry['name']}."
    parameters = {f"{name}{key}": tensor for key, tensor in adapter.items()}
    sizes = {key: list(shape) for key, shape in shapes.items() if key.startswith(name)}
    check_shapes(parameters, sizes, f"{folder / _WEIGHTS_FILE}, for this base")

    body = {key: tensor for key, tensor in base.tensors.items() if key.startswith("family.")}
    is_new = config.heads != base.config.heads and not labels
    notes = (
        ("labels are numbered: the folder was not written by Clozeline, and has no names",)
        if is_new
        else ()
    )

    return replace(
        base,
        config=config,
        tensors={**body, **heads, **parameters},
        model_type=key_map.model_type,
        files=(path, *base.files),
        absent=(),
        notes=notes,
        trained=trained,
    )


def _read_weights(folder: Path) -> tuple[dict[str, Tensor], Path]:
    path = folder / _WEIGHTS_FILE
    if not path.is_file():
        if (folder / "adapter_model.bin").is_file():
            remedy = (
                "adapter_model.bin is pickled, and is never loaded: load it with peft where you "
                "trust it, and save it again with model.save_pretrained(folder), which writes "
                "safetensors"
            )
        else:
            remedy = "download the folder again"
        raise WeightsError(f"{path}: missing; {remedy}")

    tensors = read_tensor_file(path)
    check_values(tensors, str(path))
    return tensors, path


# -- adapters -----------------------------------------------------------------------------------


def _take_factors(folder: _Folder) -> dict[str, tuple[Tensor, Tensor]]:
    """Remove the factors A [rank, inputs] and B [outputs, rank] of each adapted module, by name."""
    base = folder.key_map.tensors.base
    factors = dict[str, tuple[Tensor, Tensor]]()

    if tables := [name for name in folder.tensors if ".lora_embedding_" in name]:
        raise ConfigurationError(
            f"{folder.where}: {tables[0]}: adapts a table of embeddings, which is not supported; "
            "merge it with merge_and_unload of peft, and import the merged model"
        )

    for name in [name for name in folder.tensors if name.endswith(_A)]:
        # a class without a head saves names without the prefix
        saved_module = name.removesuffix(_A)
        module = saved_module if saved_module in folder.modules else f"{base}{saved_module}"
        if module not in folder.modules:
            raise ConfigurationError(
                f"{folder.where}: {name}: {saved_module} is not a linear map of the body of this "
                f"{folder.key_map.model_type}: expected the base that the adapter was trained on; "
                "tables, heads and convolutions cannot have an adapter"
            )

        if f"{saved_module}{_B}" not in folder.tensors:
            raise WeightsError(
                f"{folder.where}: {saved_module}{_B} is missing, next to {name}: download it again"
            )
        # the factors must fit each other and the weights of the base
        a = folder.tensors.pop(name)
        b = folder.tensors.pop(f"{saved_module}{_B}")
        sizes = [folder.weights[weight].shape for weight in folder.modules[module]]
        outputs = sum(size[0] for size in sizes)
        inputs = sizes[0][1]
        shapes = [list(a.shape), list(b.shape)]
        if shapes != [[*a.shape[:1], inputs], [outputs, *a.shape[:1]]]:
            raise WeightsError(
                f"{folder.where}: {module} has {outputs} outputs and {inputs} inputs in this base, "
                f"which lora_A {shapes[0]} and lora_B {shapes[1]} do not fit: choose the model "
                "that the adapter was trained on"
            )

        factors[module] = a, b

    if not factors:
        raise WeightsError(
            f"{folder.where}: expected tensors that end in {_A}, got none: download it again"
        )

    return {module: factors[module] for module in folder.modules if module in factors}


def _read_lora(folder: _Folder) -> _Read:
    keys = folder.keys
    # options that change the weights of the base are refused
    neutral_values = (("bias", ("none", None)), ("init_lora_weights", _NEUTRAL_INITIALIZATIONS))
    for key, neutral in neutral_values:
        if keys.get(key) not in neutral:
            remedy = (
                "convert it with path_initial_model_for_weight_conversion of peft's "
                "save_pretrained, or merge it"
            )
            raise ConfigurationError(
                f"{folder.path / PEFT_CONFIG}: {key}: {keys[key]!r} also changes the base model: "
                f"{remedy}"
            )

    stabilized = bool(keys.get("use_rslora"))
    updates: dict[str, Update] = {}

    for module, (a, b) in _take_factors(folder).items():
        # the first pattern that matches the end of the name decides
        patterns = (keys.get("alpha_pattern") or {}).items()
        where = f"{folder.path / PEFT_CONFIG}: alpha_pattern"
        alphas = (value for key, value in patterns if matches(key, module, where))
        alpha = next(alphas, keys.get("lora_alpha", 8))
        scale = alpha / (len(a) ** 0.5 if stabilized else len(a))
        updates |= split_update(Update(a, b, scale), folder.modules[module])

    parts = {
        name.removeprefix("family.").removesuffix(".weight"): update
        for name, update in updates.items()
    }
    ranks = {path: len(update.a) for path, update in parts.items()}
    alphas_by_path = {
        path: update.scale * ranks[path] ** (0.5 if stabilized else 1)
        for path, update in parts.items()
    }

    # the entry of model.adapter: ranks and alphas other than `r` and `lora_alpha` are patterns
    rank = int(keys.get("r", 8))
    alpha = float(keys.get("lora_alpha", 8))
    entry = {
        "name": "lora",
        "rank": rank,
        "alpha": alpha,
        "rank_stabilized": stabilized,
        "dropout": float(keys.get("lora_dropout") or 0.0),
        "targets": _shorten(parts, folder.modules),
        "rank_pattern": {path: path_rank for path, path_rank in ranks.items() if path_rank != rank},
        "alpha_pattern": {
            path: path_alpha
            for path, path_alpha in alphas_by_path.items()
            if abs(path_alpha - alpha) > 1e-9 * alpha
        },
    }

    factors = {
        f"{path}.{key}": getattr(update, key).contiguous()
        for path, update in parts.items()
        for key in "ab"
    }

    return entry, factors


def _read_rows(folder: _Folder) -> _Read:
    """Read a prefix or a prompt; for an encoder-decoder, read only the vectors of the encoder."""
    rows = folder.tensors.pop("prompt_embeddings", None)
    config = folder.config

    if rows is None or rows.ndim != 2:
        raise WeightsError(
            f"{folder.where}: expected prompt_embeddings [tokens, features]: download it again"
        )

    rows = rows[: int(folder.keys.get("num_virtual_tokens") or len(rows))].contiguous()
    entry = {
        "name": "prefix" if folder.keys["peft_type"] == "PREFIX_TUNING" else "prompt",
        "length": len(rows),
    }
    # build the adapter without values, to count its parts
    with torch.device("meta"):
        (adapter,) = Model(replace(config, adapter=ADAPTERS.resolve(entry)), 1).adapters.values()
    if isinstance(adapter, Prefix):
        check_prefix(adapter, folder.key_map, config, folder.keys.get("task_type"))
        width = 2 * config.key_value_heads * config.head_width
    else:
        assert isinstance(adapter, Prompt)
        check_prompt(adapter, folder.keys.get("task_type"))
        width = config.embedding_width
        rows = rows / config.dim**0.5 if config.emb_scale else rows  # the inverse of the export

    if rows.shape[1] != width * len(adapter.parts):
        shape = f"[{len(rows)}, {width * len(adapter.parts)}]"
        raise WeightsError(
            f"{folder.where}: prompt_embeddings: expected {shape} for this base, got "
            f"{list(rows.shape)}"
        )

    parts = zip(adapter.parts, torch.split(rows, width, dim=1), strict=True)
    return entry, {f"{path}.rows": part.contiguous() for path, part in parts}


_READERS: Final[Mapping[str, Callable[[_Folder], _Read]]] = {
    "LORA": _read_lora,
    "PREFIX_TUNING": _read_rows,
    "PROMPT_TUNING": _read_rows,
}


def _shorten(
    paths: Mapping[str, object] | list[str], modules: Mapping[str, Mapping[str, Target]]
) -> list[str]:
    """Return patterns of exactly these paths.

    A pattern is the last component, if no other linear map has it, otherwise the complete path.
    """
    all_paths = [
        name.removesuffix(".weight").removeprefix("family.")
        for weights in modules.values()
        for name in weights
    ]
    ends_of_others = {path.rpartition(".")[2] for path in all_paths if path not in paths}
    ends = [path.rpartition(".")[2] for path in paths]
    return list(
        dict.fromkeys(
            path if end in ends_of_others else end for path, end in zip(paths, ends, strict=True)
        )
    )


# -- the head -----------------------------------------------------------------------------------


def _with_task_head(
    base: Checkpoint,
    key_map: KeyMap,
    task: str | None,
    tensors: Mapping[str, Tensor],
    folder: Path,
    labels: Mapping[str, Any],
) -> ModelConfig:
    """Return the configuration of the base with the head of a task.

    A task without such a head keeps the heads of the base. `labels` are keys of config.json that
    describe the head.
    """
    ending = next((end for end, known in TASK_TYPES.items() if known == task), None)
    if ending is None or [endings().get(head) for head in base.config.heads] == [ending]:
        return base.config
    # the width of the head's last map is the number of its labels
    entry = key_map.classes.tasks.get(ending)
    weight = None if entry is None else tensors.get(f"{entry.out}.weight")
    if entry is None or weight is None:
        requirement = (
            f"its tensor {entry.out}.weight: name it in modules_to_save"
            if entry
            else f"a class {ending}"
        )
        reason = f"a {key_map.model_type} needs {requirement}, or a base with the head"
        raise ConfigurationError(f"{folder / PEFT_CONFIG}: task_type {task}: {reason}")

    config_json = key_map.configuration.write(base.config, base.vocab_size, base.token_ids)
    config_json |= {
        "architectures": [key_map.classes.task_class(ending).name],
        "num_labels": len(weight),
        **labels,
    }

    return replace(base.config, heads=key_map.configuration.read(config_json, {}).heads)


def _read_heads(
    config: ModelConfig, key_map: KeyMap, base: Checkpoint, saved: Mapping[str, Tensor], where: str
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Return the parameters of the heads, and the names of the ones in the adapter's folder."""
    shapes = {
        name: shape
        for name, shape in parameter_shapes(config, base.vocab_size).items()
        if name.startswith("h")
    }

    targets = key_map.tensors.targets(config, shapes)
    head_tensors = {target.name for target in targets.values()}
    # a class without a head saves names without the prefix
    full_names = {name.removeprefix(key_map.tensors.base): name for name in head_tensors} | {
        name: name for name in head_tensors
    }
    saved = {full_names.get(name, name): tensor for name, tensor in saved.items()}
    # peft saves a tied tensor with each of its modules; a token table must equal the base's
    body = export_tensors(
        key_map, config, {k: v for k, v in base.tensors.items() if k == "family.tokens.weight"}
    )
    copies = key_map.tensors.ties_in_class(config) | {name: name for name in body}
    for copy, name in copies.items():
        if copy in saved and copy not in head_tensors:
            original = body.get(name, saved.get(name))
            if original is None or not torch.equal(original.float(), saved[copy].float()):
                reason = (
                    "which an import can only take from the base: merge the adapter with peft, and "
                    "import the model"
                )
                raise WeightsError(f"{where}: {copy} was trained with the adapter, {reason}")

    if unknown := sorted(name for name in saved if name not in head_tensors and name not in copies):
        remedy = "merge the adapter with peft and import the model, or train it without them"
        raise WeightsError(
            f"{where}: no head has {len(unknown)} of its tensors: {join_names(unknown)}: {remedy}"
        )
    # take the head from the folder, otherwise from the base
    base_heads = {
        name: base.tensors[name]
        for name in targets
        if name in base.tensors and config.heads == base.config.heads
    }

    available = {**base.unread, **export_tensors(key_map, config, base_heads), **saved}
    if missing := sorted(head_tensors - available.keys()):
        remedy = "name its module in modules_to_save, or choose a base with the head"
        raise WeightsError(
            f"{where}: {len(missing)} tensors of the head are missing, also in the base: "
            f"{join_names(missing)}; {remedy}"
        )

    expected = exported_shapes(key_map, config, shapes)
    check_shapes({name: available[name] for name in expected}, expected, where)
    trained = tuple(name for name, target in targets.items() if target.name in saved)
    return import_tensors(key_map, config, available, targets), trained
