"""Gemma 2 (arXiv 2408.00118)."""

from typing import Any, ClassVar

from clozeline.model.checkpoints._conversion.key_map import Keys, Tensors
from clozeline.model.checkpoints._conversion.tables import without_keys
from clozeline.model.checkpoints.gemma import Gemma
from clozeline.model.checkpoints.llama import LocalLlama, llama_names
from clozeline.model.configuration.model_config import ModelConfig

NORMS = {
    "attention.norm": "input_layernorm",
    "attention.branch_norm": "post_attention_layernorm",
    "feed_forward.norm": "pre_feedforward_layernorm",
    "feed_forward.branch_norm": "post_feedforward_layernorm",
}
"""Norms of a layer."""


class Gemma2(LocalLlama):
    """Gemma with norms before and after each block, scores that are capped, and windows in every second layer."""

    model_type = "gemma2"
    stem = "Gemma2"
    tasks: ClassVar = Gemma.tasks
    fixed: ClassVar = {**Gemma.fixed, "norm_place": "both"}
    fields, defaults = without_keys(
        {
            **Gemma.fields,
            "attn_logit_softcapping": "attn_logit_softcapping",
            "final_logit_softcapping": "final_logit_softcapping",
        },
        Gemma.defaults,
        (),
        num_key_value_heads=4,
        hidden_activation=Gemma.defaults["hidden_act"],
        query_pre_attn_scalar=256,
        sliding_window=4096,
        attn_logit_softcapping=50.0,
        final_logit_softcapping=30.0,
    )
    only: ClassVar = Gemma.only
    activation = "hidden_activation"
    activations: ClassVar = {**Gemma.activations, "gelu": "gelu"}
    also_read = (*Gemma.also_read, "layer_types")
    modules: ClassVar = llama_names(NORMS)

    def is_usually_local(self, layer: int, given: Keys) -> bool:
        return layer % 2 == 0

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        """Return the rotation, the windows, and the factor of the scores."""
        given = {**self.defaults, **plain}
        if given["sliding_window"] is None:
            self.refuse("sliding_window", "expected 1 or more tokens, got None")
        scalar = given["query_pre_attn_scalar"]
        if not isinstance(scalar, (int, float)) or scalar <= 0:
            self.refuse("query_pre_attn_scalar", f"expected a number above 0, got {scalar!r}")
        return {**super().more_of_ours(plain, tensors), "qk_scale": scalar**-0.5}

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        """Return their keys; the class has no factor of the scores but the root of a whole number.

        It needs a window even if no layer has one.
        """
        keys = super().more_of_theirs(config)
        scale = config.qk_scale or config.head_width**-0.5
        window = keys["sliding_window"] or self.defaults["sliding_window"]
        return {**keys, "query_pre_attn_scalar": round(scale**-2), "sliding_window": window}
