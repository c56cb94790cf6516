"""Gemma 1, 2, and 3 without images."""

from dataclasses import replace
from typing import Final

from clozeline.extensions.published.conversion.config_keys import read_unscaled_base, write_rotation
from clozeline.extensions.published.conversion.tables import (
    ACTIVATIONS,
    SCORE,
    Keys,
    Tensors,
    Values,
)
from clozeline.extensions.published.model_types.llama import (
    QK_NORMS,
    LlamaKeys,
    LocalLlamaKeys,
    llama_names,
)
from clozeline.model.configuration.computed_keys import FULL, SLIDING
from clozeline.model.configuration.model_config import ModelConfig

_TANH_GELU = "gelu_pytorch_tanh"


class GemmaKeys(LlamaKeys):
    """Gemma 1 (arXiv 2403.08295).

    Llama with RMSNorm whose gain is 1 + weight, scaled embeddings, and a feed-forward block gated
    by GELU.

    `gelu` in config.json means the tanh approximation, as in the first published files: their class
    had no other GELU.
    """

    model_type = "gemma"
    classes = replace(
        LlamaKeys.classes,
        prefix="Gemma",
        tasks={
            kind: LlamaKeys.classes.tasks[kind]
            for kind in ("ForSequenceClassification", "ForTokenClassification")
        },
    )

    class Configuration(LlamaKeys.Configuration):
        fixed = {
            **LlamaKeys.Configuration.fixed,
            "norm": "rms_one",
            "emb_scale": True,
            "bias.ffn": False,
        }
        more_defaults = {
            "head_dim": 256,
            "hidden_act": _TANH_GELU,
            "max_position_embeddings": 8192,
            "num_key_value_heads": 16,
            "tie_word_embeddings": True,
        }
        supported = {"use_bidirectional_attention": (None, False)}
        activations = {_TANH_GELU: "gelu_tanh"} | ACTIVATIONS | {"gelu": "gelu_tanh"}
        extra_keys = {"hidden_activation"}

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            """Return the rotation; a second key of the activation must agree with the first."""
            act, second = (
                config_json.get(key) or _TANH_GELU for key in ("hidden_act", "hidden_activation")
            )
            if config_json.get("hidden_activation") and self.activations.get(
                second
            ) != self.activations.get(act):
                self.refuse(
                    "hidden_activation", f"expected that of hidden_act, {act!r}, got {second!r}"
                )
            return super().read_extra(config_json, tensors)


NORMS = {
    "attention.norm": "input_layernorm",
    "attention.branch_norm": "post_attention_layernorm",
    "feed_forward.norm": "pre_feedforward_layernorm",
    "feed_forward.branch_norm": "post_feedforward_layernorm",
}
"""Norms of a layer."""


class Gemma2Keys(LocalLlamaKeys):
    """Gemma 2 (arXiv 2408.00118).

    Gemma with norms before and after each block, capped scores, and windows in every second layer.
    """

    model_type = "gemma2"
    classes = replace(LocalLlamaKeys.classes, prefix="Gemma2", tasks=GemmaKeys.classes.tasks)

    class Configuration(LocalLlamaKeys.Configuration):
        fixed = {**GemmaKeys.Configuration.fixed, "norm_place": "both"}
        more_defaults = {
            **GemmaKeys.Configuration.more_defaults,
            "num_key_value_heads": 4,
            "query_pre_attn_scalar": 256,
            "sliding_window": 4096,
        }
        table = {
            "attn_logit_softcapping": ("attn_logit_softcapping", 50.0),
            "final_logit_softcapping": ("final_logit_softcapping", 30.0),
            "activation": ("hidden_activation", _TANH_GELU),
        }
        supported = GemmaKeys.Configuration.supported
        activations = {**GemmaKeys.Configuration.activations, "gelu": "gelu"}
        extra_keys = {"layer_types"}

        def is_usually_local(self, layer: int, with_defaults: Keys) -> bool:
            return layer % 2 == 0

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            """Return the rotation, the windows, and the factor of the scores."""
            with_defaults = {**self.defaults, **config_json}
            if with_defaults["sliding_window"] is None:
                self.refuse("sliding_window", "expected 1 or more tokens, got None")
            scalar = with_defaults["query_pre_attn_scalar"]
            if not isinstance(scalar, (int, float)) or scalar <= 0:
                self.refuse("query_pre_attn_scalar", f"expected a number above 0, got {scalar!r}")
            return {**super().read_extra(config_json, tensors), "qk_scale": scalar**-0.5}

        def write_extra(self, config: ModelConfig) -> Values:
            """Return the keys of config.json; the factor of the scores is the root of an integer.

            The class needs a window even if no layer is local.
            """
            keys = super().write_extra(config)
            scale = config.qk_scale or config.head_width**-0.5
            window = keys["sliding_window"] or self.defaults["sliding_window"]
            return {**keys, "query_pre_attn_scalar": round(scale**-2), "sliding_window": window}

    class Tensors(LocalLlamaKeys.Tensors):
        modules = llama_names(NORMS)


_DEFAULT_LOCAL_BASE: Final = 1e4


class Gemma3Keys(Gemma2Keys):
    """Gemma 3 without images (arXiv 2503.19786).

    Gemma 2 with a norm of each query and key, and another rotation in layers with a window.

    Published files may have `attn_logit_softcapping`, which the transformers class never reads.
    """

    model_type = "gemma3_text"
    classes = replace(
        Gemma2Keys.classes,
        prefix="Gemma3",
        base_class="TextModel",
        task_prefix="Gemma3Text",
        tasks={"ForSequenceClassification": SCORE},
    )

    class Configuration(Gemma2Keys.Configuration):
        fixed = {
            **Gemma2Keys.Configuration.fixed,
            "qk_norm": "head",
            "attn_logit_softcapping": None,
        }
        more_defaults = {"max_position_embeddings": 131072, "final_logit_softcapping": None}
        theta = 1e6
        extra_keys = {
            "rope_local_base_freq",
            "attn_logit_softcapping",
            "sliding_window_pattern",
            "_sliding_window_pattern",
        }
        supported = {"use_bidirectional_attention": (False, None)}

        def is_usually_local(self, layer: int, with_defaults: Keys) -> bool:
            return (layer + 1) % with_defaults.get("sliding_window_pattern", 6) != 0

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            """Return the rotations of global and of local layers; the latter is never scaled."""
            forms = config_json.get("rope_parameters") or {}
            if others := sorted(set(forms) - {FULL, SLIDING}):
                self.refuse(
                    "rope_parameters",
                    f"expected the keys {FULL} and {SLIDING}, got {', '.join(others)}",
                )
            base = read_unscaled_base(
                self.model_type, config_json, SLIDING, "rope_local_base_freq", _DEFAULT_LOCAL_BASE
            )
            keys = super().read_extra({**config_json, "rope_parameters": forms.get(FULL)}, tensors)
            return keys | ({"local.theta": base} if "local.window" in keys else {})

        def write_extra(self, config: ModelConfig) -> Values:
            """Return both rotations in the current and, for older readers, in the former form."""
            rotation = write_rotation(config.position)
            local = config.local
            base = _DEFAULT_LOCAL_BASE if local is None else local.theta or config.position.theta
            forms = {
                FULL: rotation["rope_parameters"],
                SLIDING: {"rope_type": "default", "rope_theta": base},
            }
            return (
                super().write_extra(config)
                | rotation
                | {"rope_parameters": forms, "rope_local_base_freq": base}
            )

    class Tensors(Gemma2Keys.Tensors):
        modules = llama_names({**NORMS, **QK_NORMS})
