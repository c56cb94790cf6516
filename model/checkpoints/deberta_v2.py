"""DeBERTa v2 and v3 (arXiv 2111.09543)."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from clozeline.model.checkpoints._conversion.key_map import Keys, Tensors
from clozeline.model.checkpoints._conversion.tables import layer_names
from clozeline.model.checkpoints.deberta import Deberta
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import DisentangledConfig

_NORM: Final = "layer_norm"
_MODULES: Final = {
    "attention.body.query": "attention.self.query_proj",
    "attention.body.key": "attention.self.key_proj",
    "attention.body.value": "attention.self.value_proj",
    "attention.body.key_of_place": "attention.self.pos_key_proj",
    "attention.body.query_of_place": "attention.self.pos_query_proj",
}
"""Modules of a layer."""


class DebertaV2(Deberta):
    """DeBERTa with a key bias and, optionally, distance buckets, shared projections, a norm and a convolution."""

    model_type = "deberta-v2"
    stem = "DebertaV2"
    tasks: ClassVar = {**Deberta.tasks, "ForMultipleChoice": Deberta.tasks["ForSequenceClassification"]}
    fixed: ClassVar = {**Deberta.fixed, "bias.key": True}
    only: ClassVar = {"conv_groups": (1,)}
    also_read = (
        *Deberta.also_read,
        *("position_buckets", "share_att_key", "norm_rel_ebd", "conv_kernel_size", "conv_act", "attention_head_size"),
    )
    modules: ClassVar = {
        **Deberta.modules,
        "family.stack.relative.norm": "deberta.encoder.LayerNorm",
        "family.stack.layers.{i}.convolution": "deberta.encoder.conv.conv",
        "family.stack.layers.{i}.norm": "deberta.encoder.conv.LayerNorm",
        **layer_names("family.stack", "deberta.encoder.layer", _MODULES),
    }

    def names(self, config: ModelConfig) -> Mapping[str, Any]:
        # no projection is fused: drop the parameters that DeBERTa names one by one
        modules = [f"family.stack.layers.{{i}}.attention.body.{name}" for name in ("query", "key", "value")]
        fused = {f"{module}.{kind}" for module in modules for kind in ("weight", "bias")}
        return {name: theirs for name, theirs in super().names(config).items() if name not in fused}

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        kernel, buckets = plain.get("conv_kernel_size", 0), plain.get("position_buckets", -1)
        return super().more_of_ours(plain, tensors) | {
            "position.disentangled.buckets": None if buckets == -1 else buckets,
            "position.disentangled.shared_projections": plain.get("share_att_key", False),
            "position.disentangled.norm": _NORM in str(plain.get("norm_rel_ebd", "none")).lower().split("|"),
            "position.disentangled.convolution": kernel or None,
        }

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        chosen = config.position.disentangled or DisentangledConfig()
        return super().more_of_theirs(config) | {
            "position_buckets": chosen.buckets or -1,
            "share_att_key": chosen.shared_projections,
            "norm_rel_ebd": _NORM if chosen.norm else "none",
            "conv_kernel_size": chosen.convolution or 0,
            "conv_act": self.activation_name(config),
        }

    def refuse_other_computations(self, plain: Keys) -> None:
        super().refuse_other_computations(plain)
        act = plain.get("hidden_act", "gelu")
        if plain.get("conv_kernel_size", 0) and plain.get("conv_act", "tanh") != act:
            got = f"{plain.get('conv_act', 'tanh')}: another activation in the first layer is not supported"
            self.refuse("conv_act", f"expected that of hidden_act {act}, got {got}")
        width = plain.get("attention_head_size")
        if width is not None and width * plain.get("num_attention_heads", 0) != plain.get("hidden_size"):
            self.refuse("attention_head_size", f"expected hidden_size / num_attention_heads, got {width}")
