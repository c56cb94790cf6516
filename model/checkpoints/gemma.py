"""Gemma 1, 2, and 3 without images."""

from typing import Any, ClassVar, Final

from clozeline.model.checkpoints._conversion.config_keys import FULL, SLIDING
from clozeline.model.checkpoints._conversion.key_map import Keys, Tensors
from clozeline.model.checkpoints._conversion.rope_keys import read_unscaled_base, write_rotation
from clozeline.model.checkpoints._conversion.tables import ACTIVATIONS, SCORE, HeadedClass, without_keys
from clozeline.model.checkpoints.llama import QK_NORMS, Llama, LocalLlama, llama_names
from clozeline.model.configuration.model_config import ModelConfig

_TANH = "gelu_pytorch_tanh"


class Gemma(Llama):
    """Gemma 1 (arXiv 2403.08295).

    Llama with RMSNorm whose gain is 1 + weight, scaled embeddings, and a feed-forward block gated by GELU.

    `gelu` means the approximation by tanh, as in the first files, whose class had no other one.
    """

    model_type = "gemma"
    stem = "Gemma"
    tasks: ClassVar = {kind: Llama.tasks[kind] for kind in ("ForSequenceClassification", "ForTokenClassification")}
    fixed: ClassVar = {**Llama.fixed, "norm": "rms_one", "emb_scale": True, "bias.ffn": False}
    fields, defaults = without_keys(
        Llama.fields,
        Llama.defaults,
        ["bias.ffn"],
        head_dim=256,
        hidden_act=_TANH,
        max_position_embeddings=8192,
        num_key_value_heads=16,
        tie_word_embeddings=True,
    )
    only: ClassVar = {"use_bidirectional_attention": (None, False)}
    activations: ClassVar = {_TANH: "gelu_tanh"} | ACTIVATIONS | {"gelu": "gelu_tanh"}
    also_read = (*Llama.also_read, "hidden_activation")

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        """Return the rotation; refuse a second key of the activation, of files in between, that says another one."""
        act, second = (plain.get(key) or _TANH for key in ("hidden_act", "hidden_activation"))
        if plain.get("hidden_activation") and self.activations.get(second) != self.activations.get(act):
            self.refuse("hidden_activation", f"expected that of hidden_act, {act!r}, got {second!r}")
        return super().more_of_ours(plain, tensors)


NORMS = {
    "attention.norm": "input_layernorm",
    "attention.branch_norm": "post_attention_layernorm",
    "feed_forward.norm": "pre_feedforward_layernorm",
    "feed_forward.branch_norm": "post_feedforward_layernorm",
}
"""Norms of a layer."""


class Gemma2(LocalLlama):
    """Gemma 2 (arXiv 2408.00118).

    Gemma with norms before and after each block, scores that are capped, and windows in every second layer.
    """

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


_LOCAL_BASE: Final = 1e4


class Gemma3(Gemma2):
    """Gemma 3 without images (arXiv 2503.19786).

    Gemma 2 with a norm of each query and key, and a rotation of their own in layers with a window.

    Its files may have `attn_logit_softcapping`, which its class never reads.
    """

    model_type = "gemma3_text"
    stem = "Gemma3"
    bare_end = "TextModel"
    tasks: ClassVar = {"ForSequenceClassification": SCORE}
    fixed: ClassVar = {**Gemma2.fixed, "qk_norm": "head"}
    fields, defaults = without_keys(
        Gemma2.fields,
        Gemma2.defaults,
        ["attn_logit_softcapping"],
        max_position_embeddings=131072,
        final_logit_softcapping=None,
    )
    theta: ClassVar = 1e6
    also_read = (
        *Gemma2.also_read,
        *("rope_local_base_freq", "attn_logit_softcapping", "sliding_window_pattern", "_sliding_window_pattern"),
    )
    only: ClassVar = {"use_bidirectional_attention": (False, None)}
    modules: ClassVar = llama_names({**NORMS, **QK_NORMS})

    def task_class(self, ending: str) -> HeadedClass:
        headed = super().task_class(ending)
        return headed._replace(name=headed.name.replace("Gemma3", "Gemma3Text"))

    def is_usually_local(self, layer: int, given: Keys) -> bool:
        return (layer + 1) % given.get("sliding_window_pattern", 6) != 0

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        """Return the base and scaling of global layers, and the base of local ones, which are never scaled."""
        forms = plain.get("rope_parameters") or {}
        if others := sorted(set(forms) - {FULL, SLIDING}):
            self.refuse("rope_parameters", f"expected the keys {FULL} and {SLIDING}, got {', '.join(others)}")
        base = read_unscaled_base(self.model_type, plain, SLIDING, "rope_local_base_freq", _LOCAL_BASE)
        found = super().more_of_ours({**plain, "rope_parameters": forms.get(FULL)}, tensors)
        return found | ({"local.theta": base} if "local.window" in found else {})

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        """Return their keys; both rotations in the current form, and in the former one for older readers."""
        rotation, local = write_rotation(config.position), config.local
        base = _LOCAL_BASE if local is None else local.theta or config.position.theta
        forms = {FULL: rotation["rope_parameters"], SLIDING: {"rope_type": "default", "rope_theta": base}}
        return super().more_of_theirs(config) | rotation | {"rope_parameters": forms, "rope_local_base_freq": base}
