"""Phi-3 (arXiv 2404.14219)."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from clozeline.model.checkpoints._conversion.key_map import Keys, Tensors
from clozeline.model.checkpoints._conversion.tables import GATED, QKV, Reshaped, Slice, fused_names, without_keys
from clozeline.model.checkpoints.llama import NORMS, Llama, LocalLlama, llama_names
from clozeline.model.configuration.model_config import ModelConfig

_BIASES = ("bias.qkv", "bias.out", "bias.ffn")
_ORIGINAL: Final = "original_max_position_embeddings"
_FORMS: Final = ("rope_parameters", "rope_scaling")


class Phi3(LocalLlama):
    """Llama without biases; queries, keys and values are fused, as are the gate and `up`. All layers have the window.

    `su` and `yarn` in its files mean longrope, as in the code that they were published with.
    """

    model_type = "phi3"
    stem = "Phi3"
    tasks: ClassVar = {kind: Llama.tasks[kind] for kind in ("ForSequenceClassification", "ForTokenClassification")}
    fixed: ClassVar = {**Llama.fixed, **dict.fromkeys(_BIASES, False)}
    fields, defaults = without_keys(
        {**Llama.fields, "dropout.hidden": "resid_pdrop"},
        Llama.defaults,
        _BIASES,
        max_position_embeddings=4096,
        resid_pdrop=0.0,
        rms_norm_eps=1e-5,
        sliding_window=None,
        original_max_position_embeddings=4096,
    )
    rotated = 1.0
    lists_layers = False
    also_read = (*Llama.also_read, "partial_rotary_factor", "embd_pdrop")
    modules: ClassVar = {
        **llama_names({**NORMS, "attention.body.out": "self_attn.o_proj", "feed_forward.body.down": "mlp.down_proj"}),
        **fused_names("model.layers.{i}.mlp.gate_up_proj", GATED),
    }

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        """Return the rotation, longrope or unscaled, and the window of all layers, if there is one."""
        given = {**self.defaults, **plain}
        for key in _FORMS:
            form = plain.get(key)
            if isinstance(form, Mapping) and form.get("rope_type", form.get("type")) in ("su", "yarn"):
                given[key] = {**form, "rope_type": "longrope"}
        found = super().more_of_ours(given, tensors)
        if (scaling := found.get("position.scaling.kind", "longrope")) != "longrope":
            self.refuse("rope_parameters", f"expected rope_type default or longrope, got {scaling!r}")
        return found

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        scaling = config.position.scaling
        original = config.position.maximum if scaling is None else scaling.original_maximum
        return super().more_of_theirs(config) | {_ORIGINAL: original}

    def names(self, config: ModelConfig) -> Mapping[str, str | Slice | Reshaped]:
        """Return the modules; the parts of the fused projection are as wide as their heads."""
        sizes = (config.attention_heads, config.key_value_heads, config.key_value_heads)
        return {**self.modules, **fused_names("model.layers.{i}.self_attn.qkv_proj", QKV, sizes=sizes)}
