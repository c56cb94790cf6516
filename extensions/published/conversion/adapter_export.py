"""Export an adapter in peft's format: adapter_config.json, and tensors by transformers' names."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.extensions.published.conversion.export import export_checkpoint
from clozeline.extensions.published.conversion.key_map import KeyMap
from clozeline.extensions.published.conversion.task_heads import endings
from clozeline.extensions.published.conversion.tensor_layouts import (
    Update,
    join_updates,
    linear_maps_of_class,
)
from clozeline.extensions.published.conversion.type_selection import find_form
from clozeline.model.adapters import Adapter
from clozeline.model.adapters.lora import Lora, LowRank
from clozeline.model.adapters.prefix import Prefix
from clozeline.model.adapters.prompt import Prompt
from clozeline.model.checkpoints.checkpoint import Checkpoint
from clozeline.model.configuration.model_config import ModelConfig

TASK_TYPES: Final[Mapping[str | None, str]] = {
    "ForSequenceClassification": "SEQ_CLS",
    "ForTokenClassification": "TOKEN_CLS",
    "ForQuestionAnswering": "QUESTION_ANS",
}
"""peft's task types, by the ending of the transformers class that has the head of a task."""
_LM_TYPES: Final = {"decoder": "CAUSAL_LM", "encoder_decoder": "SEQ_2_SEQ_LM"}
"""peft's task types of a head lm, by architecture."""
_PREFIX_TYPES: Final = frozenset({"gpt2", "llama"})
"""Model types whose class reads earlier keys and values: peft passes a prefix as these."""
_PREFIX_TASKS: Final = frozenset({"CAUSAL_LM", "SEQ_CLS"})
"""Task types for which peft can compute a prefix as our models do."""
_PROMPT_TASKS: Final = frozenset({"CAUSAL_LM", "SEQ_2_SEQ_LM", "TOKEN_CLS"})
"""Task types for which peft can compute a prompt: the states of the prompt, which come before those
of the row, do not change the scores."""


@dataclass(frozen=True)
class AdapterExport:
    """Content of a peft folder."""

    config: dict[str, Any]
    """content of adapter_config.json"""
    tensors: dict[str, Tensor]
    """content of adapter_model.safetensors"""
    class_config: dict[str, Any]
    """config.json of the transformers class that has the model's head"""
    loader: str
    """class of transformers that loads the model for the adapter, such as AutoModelForCausalLM"""


def export_adapter(
    checkpoint: Checkpoint,
    adapter: Adapter,
    trained: Collection[str] = (),
    *,
    model_type: str | None = None,
) -> AdapterExport:
    """Convert an adapter to peft's format, with the head that was trained with it.

    Args:
        checkpoint: the model of the adapter, with its head.
        adapter: an adapter of that model.
        trained: trained parameters of the head, which the checkpoint lacks.
        model_type: model type of transformers; None: the original one, or the first equivalent one.

    Raises:
        ConfigurationError: peft has no such adapter, or would compute something else; or no model
            type computes what the model does.
    """
    export = export_checkpoint(checkpoint, model_type=model_type)
    config = checkpoint.config
    _, key_map = find_form(config, checkpoint.token_ids, model_type or checkpoint.model_type)
    (head, *others) = config.heads
    types = (
        _LM_TYPES.get(config.architecture) if head == "lm" else TASK_TYPES.get(endings().get(head))
    )
    task = None if others else types
    # the adapter under peft's names, which start with a prefix by type
    name_prefix = "base_model."

    if isinstance(adapter, Lora):
        keys, tensors = _export_lora(adapter, key_map, checkpoint)
        name_prefix = "base_model.model."
    elif isinstance(adapter, Prefix):
        _check_prefix(adapter, key_map, config, task)
        keys, tensors = _export_vectors(adapter, config)
    elif isinstance(adapter, Prompt):
        _check_prompt(adapter, task)
        keys, tensors = _export_vectors(adapter, config)
    else:
        expected = "expected lora, prefix or prompt; export_model merges bitfit into the weights"
        raise ConfigurationError(
            f"adapter {type(adapter).__name__.lower()}: peft cannot store it: {expected}"
        )

    heads = _export_heads(checkpoint, key_map, export.tensors, trained)
    tensors |= {
        f"{name_prefix}{name}": tensor
        for modules in heads.values()
        for name, tensor in modules.items()
    }

    keys |= {"task_type": task, "inference_mode": True, "base_model_name_or_path": ""}
    if heads:
        keys["modules_to_save"] = sorted(heads)
    return AdapterExport(
        dict(sorted(keys.items())),
        dict(sorted(tensors.items())),
        export.config,
        export.loader,
    )


# -- LoRA ---------------------------------------------------------------------------------------


def _export_lora(
    adapter: Lora, key_map: KeyMap, checkpoint: Checkpoint
) -> tuple[dict[str, object], dict[str, Tensor]]:
    # one update per weight; updates of weights that a transformers class fuses are joined
    options = adapter.options
    updates = dict[str, Update]()
    for path, part in adapter.parts.items():
        assert isinstance(part, LowRank)
        updates[f"family.{path}.weight"] = Update(*part.factors(), part.scale)

    modules = linear_maps_of_class(key_map, checkpoint.config, checkpoint.vocab_size)
    adapted = {
        module: targets
        for module, targets in modules.items()
        if not targets.keys().isdisjoint(updates)
    }
    if not_linear := sorted(
        updates.keys() - {name for targets in adapted.values() for name in targets}
    ):
        path = not_linear[0].removeprefix("family.").removesuffix(".weight")
        raise ConfigurationError(
            f"adapter lora: in a model of type {key_map.model_type}, {path} is not a linear map, "
            "so peft cannot adapt it: export_model merges the adapter into the weights"
        )

    tensors: dict[str, Tensor] = {}
    ranks: dict[str, int] = {}
    alphas: dict[str, float] = {}

    for module, targets in adapted.items():
        outputs = {name: len(checkpoint.tensors[name]) for name in targets}
        module_updates = {name: updates[name] for name in targets if name in updates}
        joined = join_updates(module_updates, targets, outputs)
        tensors[f"base_model.model.{module}.lora_A.weight"] = joined.a.clone()
        tensors[f"base_model.model.{module}.lora_B.weight"] = joined.b
        rank = ranks[module] = len(joined.a)
        alphas[module] = joined.scale * (rank**0.5 if options.rank_stabilized else rank)

    return {
        "peft_type": "LORA",
        "r": options.rank,
        "lora_alpha": options.alpha,
        "use_rslora": options.rank_stabilized,
        "use_dora": False,
        "rank_pattern": {
            module: rank for module, rank in sorted(ranks.items()) if rank != options.rank
        },
        "alpha_pattern": {
            module: alpha
            for module, alpha in sorted(alphas.items())
            if not math.isclose(alpha, options.alpha)
        },
        "lora_dropout": options.dropout,
        "bias": "none",
        "fan_in_fan_out": any(
            target.transposed for targets in adapted.values() for target in targets.values()
        ),
        "target_modules": sorted(ranks),
    }, tensors


# -- prefix and prompt --------------------------------------------------------------------------


def _check_prefix(adapter: Prefix, key_map: KeyMap, config: ModelConfig, task: str | None) -> None:
    """Raise ConfigurationError if peft's class would compute something else, or nothing."""
    if key_map.model_type not in _PREFIX_TYPES or config.architecture != "decoder":
        reason = (
            f"the class of type {key_map.model_type} cannot read keys and values before those of a "
            f"row: expected a decoder of type {' or '.join(sorted(_PREFIX_TYPES))}"
        )
    elif task not in _PREFIX_TASKS:
        types = " or ".join(sorted(_PREFIX_TASKS))
        reason = f"expected a head of the task_type {types}, got {', '.join(config.heads)}"
    else:
        return
    raise ConfigurationError(f"adapter prefix: peft cannot compute it: {reason}")


def _check_prompt(adapter: Prompt, task: str | None) -> None:
    """Raise ConfigurationError if peft's class would compute something else, or nothing."""
    if task not in _PROMPT_TASKS or len(adapter.parts) != 1:
        raise ConfigurationError(
            "adapter prompt: peft cannot compute it: heads of rows would also read the states of "
            "the prompt, and peft has no other pretraining heads: expected a head of the task_type "
            f"{', '.join(sorted(_PROMPT_TASKS))}; got {task}"
        )


@torch.no_grad()
def _export_vectors(
    adapter: Prefix | Prompt, config: ModelConfig
) -> tuple[dict[str, object], dict[str, Tensor]]:
    """Return peft's keys, and the vectors of a prefix or a prompt."""
    keys: dict[str, object] = {
        "num_virtual_tokens": adapter.options.length,
        "num_layers": config.layers,
    }
    keys["num_transformer_submodules"] = 1

    if isinstance(adapter, Prefix):
        heads = config.key_value_heads
        width = config.key_value_heads * config.head_width
        keys |= {"peft_type": "PREFIX_TUNING", "prefix_projection": False}
        # [length, layers x 2 x width]: keys, then values, of each layer
        rows = torch.cat([adapter.keys_and_values(path).float() for path in adapter.parts], dim=1)
    else:
        heads = config.attention_heads
        width = config.embedding_width
        keys |= {"peft_type": "PROMPT_TUNING", "prompt_tuning_init": "RANDOM"}
        (part,) = adapter.parts.values()
        # the class scales its token table, but not peft's prompt
        scale = config.dim**0.5 if config.emb_scale else 1.0
        rows = scale * part.get_parameter("rows").float()

    return {**keys, "num_attention_heads": heads, "token_dim": width}, {"prompt_embeddings": rows}


# -- the head -----------------------------------------------------------------------------------


def _export_heads(
    checkpoint: Checkpoint,
    key_map: KeyMap,
    exported: Mapping[str, Tensor],
    trained: Collection[str],
) -> dict[str, dict[str, Tensor]]:
    """Return the modules with trained parameters in the class, with all tensors that peft needs.

    peft finds these modules by the ends of their names; modules outside the body are complete.
    """
    if outside_heads := sorted(name for name in trained if not name.startswith("heads.")):
        raise ConfigurationError(
            f"adapter: {', '.join(outside_heads[:4])} were trained with it, but peft only "
            "stores heads: export_model merges an adapter into the weights"
        )

    # add tied tensors under their second names
    ties = key_map.tensors.ties_in_class(checkpoint.config)
    copies = {copy: exported[name] for copy, name in ties.items() if name in exported}
    all_tensors = {**exported, **copies}
    modules: dict[str, dict[str, Tensor]] = {}

    for target in key_map.tensors.targets(checkpoint.config, trained).values():
        in_body = bool(key_map.tensors.base) and target.name.startswith(key_map.tensors.base)
        module = target.name.rpartition(".")[0] if in_body else target.name.partition(".")[0]
        modules[module] = {
            name: tensor.float().clone()
            for name, tensor in all_tensors.items()
            if name.startswith(f"{module}.")
        }

    return modules
