"""ModernBERT, and ModernBERT as a decoder."""

from dataclasses import replace
from typing import Final

from clozeline.extensions.published.conversion.classes import Classes
from clozeline.extensions.published.conversion.config_keys import (
    read_layer_types,
    read_unscaled_base,
)
from clozeline.extensions.published.conversion.key_map import KeyMap
from clozeline.extensions.published.conversion.tables import (
    DROPOUT,
    GATED,
    QKV,
    SIZES,
    Keys,
    Tensors,
    Values,
    attention_names,
    fused_names,
    layer_names,
    pool_name,
)
from clozeline.extensions.published.conversion.task_heads import TaskHeadNames
from clozeline.model.configuration.computed_keys import FULL, SLIDING, write_layer_types
from clozeline.model.configuration.head import ClassifierOptions, VocabularyOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import LocalConfig

_POOL_NAMES: Final = {"cls": "cls", "mean": "mean"}
"""Names of poolings in config.json, each with our name."""
_DEFAULT_THETAS = {FULL: 160000.0, SLIDING: 10000.0}
_FORMER_THETA_KEYS = {FULL: "global_rope_theta", SLIDING: "local_rope_theta"}
_LAYER_MODULES: Final = {
    "attention.body.out": "attn.Wo",
    "attention.norm": "attn_norm",
    "feed_forward.body.down": "mlp.Wo",
    "feed_forward.norm": "mlp_norm",
}
"""Modules of a layer."""


class ModernBertKeys(KeyMap):
    """ModernBERT (arXiv 2412.13663).

    Pre-norm encoder with local layers; one matrix holds queries, keys and values, another the gate
    and `up`.

    The transformers class also applies `attention_dropout` to the output of attention, where our
    model applies `dropout.hidden`.
    """

    model_type = "modernbert"
    classes = Classes(
        "ModernBert",
        head_classes={("masked_lm",): "ForMaskedLM"},
        tasks=dict.fromkeys(
            (
                "ForSequenceClassification",
                "ForTokenClassification",
                "ForQuestionAnswering",
                "ForMultipleChoice",
            ),
            TaskHeadNames(
                "classifier",
                "head.dense",
                "head.norm",
                {"hidden_norm": True},
                dropout=DROPOUT,
                default_dropout=0.0,
            ),
        ),
    )

    class Configuration(KeyMap.Configuration):
        fixed = {
            "family": "encoder",
            "norm": "layer",
            "norm_place": "pre",
            "first_norm": False,
            "final_norm": True,
            "emb_norm": True,
            "gated": True,
            "position.kind": "rope",
            "init.scale_residual": True,
        }
        table = {
            **SIZES,
            "eps": ("norm_eps", 1e-5),
            "tied": ("tie_word_embeddings", True),
            "bias.norm": ("norm_bias", False),
            "bias.qkv": ("attention_bias", False),
            "bias.out": "attention_bias",
            "bias.ffn": ("mlp_bias", False),
            "bias.head": ("classifier_bias", False),
            "position.maximum": ("max_position_embeddings", 8192),
            "dropout.embedding": ("embedding_dropout", 0.0),
            "dropout.attention": ("attention_dropout", 0.0),
            "dropout.activation": ("mlp_dropout", 0.0),
            "init.std": ("initializer_range", 0.02),
            "init.cutoff": ("initializer_cutoff_factor", 2.0),
            "activation": ("hidden_activation", "gelu"),
        }
        extra_keys = {
            "layer_types",
            "global_attn_every_n_layers",
            "local_attention",
            "classifier_activation",
            "decoder_bias",
            *("rope_parameters", "rope_scaling", "layer_norm_eps", *_FORMER_THETA_KEYS.values()),
        }

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            """Return the head, theta, and local layers, if any, with their window and theta."""
            # one activation for the layers and the head
            act, head_act = (
                config_json.get(key, "gelu")
                for key in ("hidden_activation", "classifier_activation")
            )

            if act != head_act:
                self.refuse(
                    "classifier_activation",
                    f"expected the layers' activation, {act!r}, got {head_act!r}",
                )
            # add the head, and the rotation of global layers
            head = {
                "weight": 1.0,
                **self.classes.head_options,
                "bias": bool(config_json.get("decoder_bias", True)),
            }

            base = {
                f"heads.{self.classes.heads[0]}": head,
                "position.theta": self._theta(config_json, FULL),
            }
            # add local layers, if any
            layers = _local_layers(self.model_type, config_json)
            if layers == {"local.global_every": 1}:
                return base
            return {
                **base,
                **layers,
                "local.theta": self._theta(config_json, SLIDING),
                "local.window": config_json.get("local_attention", 128) // 2,
            }

        def _theta(self, config_json: Keys, layer_type: str) -> float:
            if config_json.get("rope_scaling"):
                self.refuse("rope_scaling", "expected null: scaled positions are not supported")
            return read_unscaled_base(
                self.model_type,
                config_json,
                layer_type,
                _FORMER_THETA_KEYS[layer_type],
                _DEFAULT_THETAS[layer_type],
            )

        def task_options(self, ending: str, config_json: Keys) -> Values:
            options = {
                "hidden": self.activations.get(config_json.get("classifier_activation", "gelu"))
            }
            pooled = ending in ("ForSequenceClassification", "ForMultipleChoice")
            return options | (
                {"pool": config_json.get("classifier_pooling", "cls")} if pooled else {}
            )

        def task_keys(self, config: ModelConfig, head: ClassifierOptions) -> Values:
            return {"classifier_pooling": pool_name(_POOL_NAMES, head.pool_in(config.architecture))}

        def write_extra(self, config: ModelConfig) -> Values:
            """Return layers and thetas in the current and, for older readers, the former format."""
            local = config.local or LocalConfig(window=0, global_every=1)
            bases = {FULL: config.position.theta, SLIDING: local.theta or config.position.theta}
            global_period = (
                {}
                if local.global_every is None
                else {"global_attn_every_n_layers": local.global_every}
            )
            # the former format needs a number as cutoff
            head = config.heads.get(self.classes.heads[0])
            return {
                "decoder_bias": not isinstance(head, VocabularyOptions) or head.bias,
                # the publisher's files have both names, and llama.cpp reads this one
                "layer_norm_eps": config.eps,
                "layer_types": write_layer_types(config),
                **global_period,
                "local_attention": 2 * local.window,
                "rope_parameters": {
                    layer_type: {"rope_type": "default", "rope_theta": base}
                    for layer_type, base in bases.items()
                },
                **{_FORMER_THETA_KEYS[layer_type]: base for layer_type, base in bases.items()},
                "classifier_activation": self.activation_name(config) or config.activation,
                "initializer_cutoff_factor": config.init.cutoff
                or self.defaults["initializer_cutoff_factor"],
            }

    class Tensors(KeyMap.Tensors):
        base = "model."
        modules = {
            "family.tokens": "model.embeddings.tok_embeddings",
            "family.stack.embeddings.norm": "model.embeddings.norm",
            **layer_names("family.stack", "model.layers", _LAYER_MODULES),
            **fused_names("model.layers.{i}.attn.Wqkv", QKV),
            **fused_names("model.layers.{i}.mlp.Wi", GATED),
            "family.stack.norm": "model.final_norm",
            "heads.masked_lm.transform": "head.dense",
            "heads.masked_lm.norm": "head.norm",
            "heads.masked_lm.projection": "decoder",
        }


def _local_layers(model_type: str, config_json: Keys) -> Values:
    """Return the distance between global layers, or the list of types if it varies."""
    every = config_json.get("global_attn_every_n_layers") or 3
    types = read_layer_types(model_type, config_json, lambda layer: layer % every != 0)
    for period in (every, *range(1, len(types) + 1)):
        if types == [SLIDING if layer % period else FULL for layer in range(len(types))]:
            return {"local.global_every": period}
    return {"local.layer_types": tuple(types)}


_SEPARATE_PROJECTIONS = attention_names("attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.Wo")


class ModernBertDecoderKeys(ModernBertKeys):
    """ModernBERT as a decoder (Ettin, arXiv 2507.11412).

    ModernBERT from left to right: separate queries, keys and values, and a window that counts the
    token itself.
    """

    model_type = "modernbert-decoder"
    classes = replace(
        ModernBertKeys.classes,
        prefix="ModernBertDecoder",
        head_classes={("lm",): "ForCausalLM"},
        head_options={"projection": "transformed"},
        projections=("transformed",),
        tasks={
            "ForSequenceClassification": TaskHeadNames(
                "classifier", "head.dense", "head.norm", {"hidden_norm": True}, DROPOUT, 0.0
            )
        },
    )

    class Configuration(ModernBertKeys.Configuration):
        fixed = {**ModernBertKeys.Configuration.fixed, "family": "decoder"}
        extra_keys = {"sliding_window"}

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            """Return the keys of ModernBERT, and the window."""
            keys = super().read_extra({**config_json, "local_attention": 128}, tensors)
            if "local.window" in keys:
                default = (config_json.get("local_attention", 128) or 0) // 2
                keys["local.window"] = config_json.get("sliding_window", default) - 1
            return keys

        def write_extra(self, config: ModelConfig) -> Values:
            window = 1 + (0 if config.local is None else config.local.window)
            return {
                **super().write_extra(config),
                "sliding_window": window,
                "local_attention": 2 * window,
            }

        def task_options(self, ending: str, config_json: Keys) -> Values:
            hidden = self.activations.get(config_json.get("classifier_activation", "gelu"))
            return {"hidden": hidden, "bias": bool(config_json.get("classifier_bias", False))}

        def task_keys(self, config: ModelConfig, head: ClassifierOptions) -> Values:
            return {}

    class Tensors(ModernBertKeys.Tensors):
        modules = {
            **{
                name: published
                for name, published in ModernBertKeys.Tensors.modules.items()
                if "attention.body" not in name and "heads." not in name
            },
            **layer_names("family.stack", "model.layers", _SEPARATE_PROJECTIONS),
            "heads.lm.transform": "lm_head.dense",
            "heads.lm.norm": "lm_head.norm",
            "heads.lm.projection": "decoder",
        }
