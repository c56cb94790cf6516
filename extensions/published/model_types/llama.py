"""Llama 1 to 3 and types with its layers: Mistral, Qwen 2, 2.5 and 3, OLMo 2, SmolLM3 and Phi-3."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from clozeline.extensions.published.conversion.classes import Classes
from clozeline.extensions.published.conversion.config_keys import (
    read_layer_types,
    read_rotation,
    read_windows,
    write_rotation,
    write_window,
)
from clozeline.extensions.published.conversion.key_map import KeyMap
from clozeline.extensions.published.conversion.tables import (
    ACTIVATIONS,
    ANSWER,
    DROPOUT,
    GATED,
    QKV,
    SCORE,
    SIZES,
    Keys,
    Names,
    Reshaped,
    Slice,
    Tensors,
    Values,
    attention_names,
    fused_names,
    layer_names,
)
from clozeline.extensions.published.conversion.task_heads import TaskHeadNames
from clozeline.model.configuration.computed_keys import write_layer_types
from clozeline.model.configuration.model_config import ModelConfig

PROJECTIONS: Final[Mapping[str, str]] = {
    **attention_names(
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"
    ),
    "feed_forward.body.gate": "mlp.gate_proj",
    "feed_forward.body.up": "mlp.up_proj",
    "feed_forward.body.down": "mlp.down_proj",
}
"""Linear maps of a layer, also in types derived from Llama."""
QK_NORMS: Final[Mapping[str, str]] = {
    "attention.body.query_norm": "self_attn.q_norm",
    "attention.body.key_norm": "self_attn.k_norm",
}
"""Norms of queries and keys, in types that have them."""
NORMS: Final = {
    "attention.norm": "input_layernorm",
    "feed_forward.norm": "post_attention_layernorm",
}
"""Norms before the blocks of a layer."""


def llama_names(norms: Mapping[str, str]) -> dict[str, str | Slice | Reshaped]:
    """Return the modules of a model with Llama's names, given the norms of its layers."""
    return {
        "family.tokens": "model.embed_tokens",
        **layer_names("family.stack", "model.layers", {**PROJECTIONS, **norms}),
        "family.stack.norm": "model.norm",
        "heads.lm.projection": "lm_head",
    }


class LlamaKeys(KeyMap):
    """Llama 1 to 3 (arXiv 2302.13971).

    Pre-norm decoder with RMSNorm, rotary positions, scaled or not, and a gated feed-forward block.
    """

    model_type = "llama"
    classes = Classes(
        "Llama",
        tasks={
            "ForSequenceClassification": SCORE,
            "ForTokenClassification": TaskHeadNames("score", dropout=DROPOUT, default_dropout=0.1),
            "ForQuestionAnswering": TaskHeadNames(
                "qa_outputs", options={"dropout": 0.0}, body=("model.", "transformer.")
            ),
        },
    )

    class Configuration(KeyMap.Configuration):
        fixed = {"family": "decoder", "norm": "rms", "gated": True, "position.kind": "rope"}
        table = {
            **SIZES,
            "kv_heads": ("num_key_value_heads", None),
            "head_dim": ("head_dim", None),
            "eps": ("rms_norm_eps", 1e-6),
            "tied": ("tie_word_embeddings", False),
            "bias.qkv": ("attention_bias", False),
            "bias.out": "attention_bias",
            "bias.ffn": ("mlp_bias", False),
            "position.maximum": ("max_position_embeddings", 2048),
            "dropout.attention": ("attention_dropout", 0.0),
            "init.std": ("initializer_range", 0.02),
            "activation": ("hidden_act", "silu"),
        }
        theta = 10000.0
        """Base of the rotation if config.json has none."""
        rotated: ClassVar[float | None] = None
        """share of a head's components that rotate if no key says so; None: the type always rotates
        all"""
        activations = {"gelu_pytorch_tanh": "gelu_tanh"} | ACTIVATIONS
        extra_keys = {"rope_theta", "rope_scaling", "rope_parameters"}

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            return read_rotation(
                self.model_type, {**self.defaults, **config_json}, self.theta, self.rotated
            )

        def write_extra(self, config: ModelConfig) -> Values:
            return write_rotation(config.position, partial=self.rotated is not None)

    class Tensors(KeyMap.Tensors):
        base = "model."
        modules = llama_names(NORMS)
        buffers = {
            r"rotary_emb\.inv_freq$",
        }


class LocalLlamaKeys(LlamaKeys):
    """Llama with a window in some or all layers; only null means no window, not a missing key."""

    class Configuration(LlamaKeys.Configuration):
        lists_layers = True
        """Whether the transformers class reads `layer_types`; False: all layers have the window,
        whatever the list says."""

        def is_usually_local(self, layer: int, with_defaults: Keys) -> bool:
            """Return whether a layer has the window if config.json has no list.

            `with_defaults` are the keys with their defaults.
            """
            return True

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            """Return the rotation and the windows, unless `use_sliding_window` disables them.

            A list of layer types takes precedence over the keys that `is_usually_local` reads.
            """
            with_defaults = {**self.defaults, **config_json}
            window = (
                with_defaults["sliding_window"]
                if with_defaults.get("use_sliding_window", True)
                else None
            )

            listed = config_json if self.lists_layers else {**config_json, "layer_types": None}
            types = read_layer_types(
                self.model_type,
                listed,
                lambda layer: window is not None and self.is_usually_local(layer, with_defaults),
            )

            return super().read_extra(config_json, tensors) | read_windows(
                self.model_type, types, window
            )

        def write_extra(self, config: ModelConfig) -> Values:
            window = write_window(config)
            keys: dict[str, object] = {"sliding_window": window}
            if "use_sliding_window" in self.defaults:
                keys["use_sliding_window"] = window is not None
            if self.lists_layers:
                keys["layer_types"] = write_layer_types(config)
            return super().write_extra(config) | keys


_MISTRAL_BIASES = ("bias.qkv", "bias.out", "bias.ffn")


class MistralKeys(LocalLlamaKeys):
    """Mistral (arXiv 2310.06825).

    Llama without biases, whose layers all have the window.
    """

    model_type = "mistral"
    classes = replace(
        LocalLlamaKeys.classes,
        prefix="Mistral",
        tasks={**LlamaKeys.classes.tasks, "ForQuestionAnswering": ANSWER},
    )

    class Configuration(LocalLlamaKeys.Configuration):
        fixed = {**LlamaKeys.Configuration.fixed, **dict.fromkeys(_MISTRAL_BIASES, False)}
        more_defaults = {
            "num_key_value_heads": 8,
            "max_position_embeddings": 131072,
            "sliding_window": 4096,
        }
        extra_keys = {"layer_types"}
        lists_layers = False


_QWEN2_BIASES = {"bias.qkv": True, "bias.out": False, "bias.ffn": False}


class Qwen2Keys(LocalLlamaKeys):
    """Qwen 2 and 2.5 (arXiv 2407.10671).

    Llama with biases of queries, keys and values; layers from `max_window_layers` on may have a
    window.
    """

    model_type = "qwen2"
    classes = replace(LocalLlamaKeys.classes, prefix="Qwen2")

    class Configuration(LocalLlamaKeys.Configuration):
        fixed = {**LlamaKeys.Configuration.fixed, **_QWEN2_BIASES}
        more_defaults = {
            "num_key_value_heads": 32,
            "max_position_embeddings": 32768,
            "use_sliding_window": False,
            "sliding_window": 4096,
            "max_window_layers": 28,
        }
        extra_keys = {"layer_types"}

        def is_usually_local(self, layer: int, with_defaults: Keys) -> bool:
            return bool(layer >= with_defaults["max_window_layers"])

        def write_extra(self, config: ModelConfig) -> Values:
            """Return the rotation and the windows, also as a number of layers for older readers."""
            local = [layer for layer in range(config.layers) if config.is_local(layer)]
            return super().write_extra(config) | {
                "max_window_layers": min(local, default=config.layers)
            }


class Qwen3Keys(Qwen2Keys):
    """Qwen 3 (arXiv 2505.09388).

    Llama with the windows of Qwen 2 and a norm of each query and key; a head is 128 wide unless a
    key says so.
    """

    model_type = "qwen3"
    classes = replace(Qwen2Keys.classes, prefix="Qwen3")

    class Configuration(Qwen2Keys.Configuration):
        fixed = {**LlamaKeys.Configuration.fixed, "bias.ffn": False, "qk_norm": "head"}
        more_defaults = {"head_dim": 128}

    class Tensors(Qwen2Keys.Tensors):
        modules = llama_names({**NORMS, **QK_NORMS})


class Olmo2Keys(LlamaKeys):
    """OLMo 2 (arXiv 2501.00656).

    Llama with norms on the branches instead of before them, and norms over the entire queries and
    keys.
    """

    model_type = "olmo2"
    classes = replace(LlamaKeys.classes, prefix="Olmo2", tasks={"ForSequenceClassification": SCORE})

    class Configuration(LlamaKeys.Configuration):
        fixed = {
            **LlamaKeys.Configuration.fixed,
            "bias.ffn": False,
            "norm_place": "branch",
            "qk_norm": "all",
        }
        more_defaults = {"rms_norm_eps": 1e-5}
        extra_keys = {"layer_types"}

    class Tensors(LlamaKeys.Tensors):
        modules = llama_names(
            {
                **QK_NORMS,
                "attention.branch_norm": "post_attention_layernorm",
                "feed_forward.branch_norm": "post_feedforward_layernorm",
            }
        )


class SmolLm3Keys(LocalLlamaKeys):
    """SmolLM3 (https://huggingface.co/blog/smollm3).

    Llama whose every fourth layer does not rotate queries and keys, unless a list says which; these
    layers may be local.
    """

    model_type = "smollm3"
    classes = replace(LocalLlamaKeys.classes, prefix="SmolLM3")

    class Configuration(LocalLlamaKeys.Configuration):
        more_defaults = {
            "num_key_value_heads": 4,
            "max_position_embeddings": 32768,
            "tie_word_embeddings": True,
            "use_sliding_window": False,
            "sliding_window": None,
            "no_rope_layer_interval": 4,
        }
        theta = 2e6
        extra_keys = {"no_rope_layers", "layer_types"}

        def nope_layers(self, with_defaults: Keys) -> tuple[int, ...]:
            """Return the layers without a rotation; a 0 in the list is such a layer."""
            layers = with_defaults["num_hidden_layers"]
            interval = with_defaults["no_rope_layer_interval"]
            rotated = with_defaults.get("no_rope_layers")
            if rotated is None:
                rotated = [(layer + 1) % interval for layer in range(layers)]
            if not isinstance(rotated, list) or len(rotated) < layers:
                self.refuse(
                    "no_rope_layers",
                    f"expected a number for each of {layers} layers, got {rotated}",
                )
            return tuple(layer for layer in range(layers) if not rotated[layer])

        def is_usually_local(self, layer: int, with_defaults: Keys) -> bool:
            return layer in self.nope_layers(with_defaults)

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            nope = self.nope_layers({**self.defaults, **config_json})
            return {**super().read_extra(config_json, tensors), "position.nope_layers": nope}

        def write_extra(self, config: ModelConfig) -> Values:
            rotated = [
                int(layer not in config.position.nope_layers) for layer in range(config.layers)
            ]
            return super().write_extra(config) | {"no_rope_layers": rotated}


_PHI3_BIASES = ("bias.qkv", "bias.out", "bias.ffn")
_ORIGINAL_MAXIMUM: Final = "original_max_position_embeddings"
_ROTATION_KEYS: Final = ("rope_parameters", "rope_scaling")


class Phi3Keys(LocalLlamaKeys):
    """Phi-3 (arXiv 2404.14219).

    Llama without biases; one matrix holds queries, keys and values, another the gate and `up`. All
    layers have the window.

    `su` and `yarn` in published files mean longrope, as in the code that was published with them.
    """

    model_type = "phi3"
    classes = replace(
        LocalLlamaKeys.classes,
        prefix="Phi3",
        tasks={
            kind: LlamaKeys.classes.tasks[kind]
            for kind in ("ForSequenceClassification", "ForTokenClassification")
        },
    )

    class Configuration(LocalLlamaKeys.Configuration):
        fixed = {**LlamaKeys.Configuration.fixed, **dict.fromkeys(_PHI3_BIASES, False)}
        table = {"dropout.hidden": ("resid_pdrop", 0.0)}
        more_defaults = {
            "max_position_embeddings": 4096,
            "rms_norm_eps": 1e-5,
            "sliding_window": None,
            "original_max_position_embeddings": 4096,
        }
        rotated = 1.0
        lists_layers = False
        extra_keys = {"partial_rotary_factor", "embd_pdrop"}

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            """Return the rotation, longrope or unscaled, and the window of all layers, if any."""
            with_defaults = {**self.defaults, **config_json}

            for key in _ROTATION_KEYS:
                form = config_json.get(key)
                if isinstance(form, Mapping) and form.get("rope_type", form.get("type")) in (
                    "su",
                    "yarn",
                ):
                    with_defaults[key] = {**form, "rope_type": "longrope"}

            keys = super().read_extra(with_defaults, tensors)
            if (scaling := keys.get("position.scaling.kind", "longrope")) != "longrope":
                self.refuse(
                    "rope_parameters", f"expected rope_type default or longrope, got {scaling!r}"
                )

            return keys

        def write_extra(self, config: ModelConfig) -> Values:
            scaling = config.position.scaling
            original = config.position.maximum if scaling is None else scaling.original_maximum
            return super().write_extra(config) | {_ORIGINAL_MAXIMUM: original}

    class Tensors(LocalLlamaKeys.Tensors):
        modules = {
            **llama_names(
                {
                    **NORMS,
                    "attention.body.out": "self_attn.o_proj",
                    "feed_forward.body.down": "mlp.down_proj",
                }
            ),
            **fused_names("model.layers.{i}.mlp.gate_up_proj", GATED),
        }

        def names(self, config: ModelConfig) -> Names:
            """Return the modules; each part of the fused projection is as wide as all its heads."""
            sizes = (config.attention_heads, config.key_value_heads, config.key_value_heads)
            return {
                **self.modules,
                **fused_names("model.layers.{i}.self_attn.qkv_proj", QKV, sizes=sizes),
            }
