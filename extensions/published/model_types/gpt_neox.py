"""Decoders with parallel blocks: GPT-NeoX and Pythia, and Phi 1, 1.5 and 2."""

from typing import Final

from clozeline.extensions.published.conversion.classes import Classes
from clozeline.extensions.published.conversion.config_keys import read_rotation, write_rotation
from clozeline.extensions.published.conversion.key_map import KeyMap
from clozeline.extensions.published.conversion.tables import (
    ACTIVATIONS,
    ANSWER,
    DECODER_TAGS,
    DROPOUT,
    QKV,
    SCORE,
    SIZES,
    Keys,
    Names,
    Tensors,
    Values,
    attention_names,
    fused_names,
    layer_names,
)
from clozeline.extensions.published.conversion.task_heads import TaskHeadNames
from clozeline.model.configuration.model_config import ModelConfig

_GPT_NEOX_MODULES: Final = {
    "attention.body.out": "attention.dense",
    "attention.norm": "input_layernorm",
    "feed_forward.body.up": "mlp.dense_h_to_4h",
    "feed_forward.body.down": "mlp.dense_4h_to_h",
    "feed_forward.norm": "post_attention_layernorm",
}
"""Modules of a layer."""
_CURRENT_ROTATION_KEYS: Final = {
    "rotary_emb_base": "rope_theta",
    "rotary_pct": "partial_rotary_factor",
}
"""Former keys of config.json for the rotation, each with the current key."""


class GptNeoxKeys(KeyMap):
    """GPT-NeoX (arXiv 2204.06745) and Pythia (arXiv 2304.01373).

    Pre-norm decoder. Attention and feed-forward of a layer read the same states, and the rotation
    covers the first quarter of each attention head.

    One matrix holds queries, keys and values: first all three of head 0, then those of head 1, and
    so on.
    """

    model_type = "gpt_neox"
    classes = Classes(
        "GPTNeoX",
        tasks={
            "ForSequenceClassification": SCORE,
            "ForTokenClassification": DECODER_TAGS,
            "ForQuestionAnswering": ANSWER,
        },
    )

    class Configuration(KeyMap.Configuration):
        fixed = {"family": "decoder", "position.kind": "rope"}
        table = {
            **SIZES,
            "eps": ("layer_norm_eps", 1e-5),
            "tied": ("tie_word_embeddings", False),
            "bias.qkv": ("attention_bias", True),
            "bias.out": "attention_bias",
            "position.maximum": ("max_position_embeddings", 2048),
            "dropout.hidden": ("hidden_dropout", 0.0),
            "dropout.embedding": "hidden_dropout",
            "dropout.attention": ("attention_dropout", 0.0),
            "init.std": ("initializer_range", 0.02),
            "activation": ("hidden_act", "gelu"),
        }
        supported = {"is_decoder": (False, True)}
        extra_keys = {
            *_CURRENT_ROTATION_KEYS,
            *_CURRENT_ROTATION_KEYS.values(),
            "rope_parameters",
            "rope_scaling",
            "use_parallel_residual",
            "head_dim",
        }

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            """Return the rotation, and whether attention and feed-forward are parallel."""
            # dim and the number of heads decide the width of a head; head_dim must agree
            head_width = config_json["hidden_size"] // config_json["num_attention_heads"]
            if (head_dim := config_json.get("head_dim")) not in (None, head_width):
                self.refuse(
                    "head_dim",
                    f"the class only reads it for the rotation: expected {head_width}, "
                    f"got {head_dim}",
                )
            # read the rotation from current keys; former keys fill in for absent ones
            from_former_keys = {
                new: config_json[old]
                for old, new in _CURRENT_ROTATION_KEYS.items()
                if config_json.get(old) is not None
            }

            rotation = read_rotation(
                self.model_type, {**from_former_keys, **config_json}, rotated=0.25
            )
            return {
                **rotation,
                "parallel": "two_norms" if config_json.get("use_parallel_residual", True) else None,
            }

        def write_extra(self, config: ModelConfig) -> Values:
            keys = write_rotation(config.position, partial=True)
            former_keys = {old: keys[new] for old, new in _CURRENT_ROTATION_KEYS.items()}
            return {**keys, **former_keys, "use_parallel_residual": config.parallel == "two_norms"}

    class Tensors(KeyMap.Tensors):
        base = "gpt_neox."
        modules = {
            "family.tokens": "gpt_neox.embed_in",
            **layer_names("family.stack", "gpt_neox.layers", _GPT_NEOX_MODULES),
            "family.stack.norm": "gpt_neox.final_layer_norm",
            "heads.lm.projection": "embed_out",
        }
        other_names = {"lm_head.": "embed_out."}
        buffers = {r"\.attention\.(masked_)?bias$", r"rotary_emb\.inv_freq$"}

        def names(self, config: ModelConfig) -> Names:
            """Return the names; query, key and value are slices of one matrix, head by head."""
            fused_module = "gpt_neox.layers.{i}.attention.query_key_value"
            return {
                **self.modules,
                **fused_names(fused_module, QKV, groups=config.attention_heads),
            }


_PHI_MODULES = {
    **attention_names(
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.dense"
    ),
    "attention.body.query_norm": "self_attn.q_layernorm",
    "attention.body.key_norm": "self_attn.k_layernorm",
    "attention.norm": "input_layernorm",
    "feed_forward.body.up": "mlp.fc1",
    "feed_forward.body.down": "mlp.fc2",
}
"""Modules of a layer."""


class PhiKeys(KeyMap):
    """Phi 1, 1.5 and 2 (arXiv 2306.11644, 2309.05463).

    Decoder. Attention and feed-forward of a layer read the same normalized states, the rotation
    covers half of each attention head, and the next-token head has a bias.
    """

    model_type = "phi"
    classes = Classes(
        "Phi",
        head_options={"projection": "biased"},
        projections=("biased",),
        tasks={
            "ForSequenceClassification": SCORE,
            "ForTokenClassification": TaskHeadNames("score", dropout=DROPOUT, default_dropout=0.1),
        },
    )

    class Configuration(KeyMap.Configuration):
        fixed = {"family": "decoder", "parallel": "one_norm", "position.kind": "rope"}
        table = {
            **SIZES,
            "kv_heads": ("num_key_value_heads", None),
            "eps": ("layer_norm_eps", 1e-5),
            "tied": ("tie_word_embeddings", False),
            "position.maximum": ("max_position_embeddings", 2048),
            "dropout.hidden": ("resid_pdrop", 0.0),
            "dropout.embedding": ("embd_pdrop", 0.0),
            "dropout.attention": ("attention_dropout", 0.0),
            "init.std": ("initializer_range", 0.02),
            "activation": ("hidden_act", "gelu_new"),
        }
        activations = {"gelu_new": "gelu_tanh"} | ACTIVATIONS
        extra_keys = {
            "rope_theta",
            "rope_scaling",
            "rope_parameters",
            "partial_rotary_factor",
            "qk_layernorm",
        }

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            rotation = read_rotation(self.model_type, {**self.defaults, **config_json}, rotated=0.5)
            return {**rotation, "qk_norm": "head" if config_json.get("qk_layernorm") else None}

        def write_extra(self, config: ModelConfig) -> Values:
            return {
                **write_rotation(config.position, partial=True),
                "qk_layernorm": config.qk_norm == "head",
            }

    class Tensors(KeyMap.Tensors):
        base = "model."
        modules = {
            "family.tokens": "model.embed_tokens",
            **layer_names("family.stack", "model.layers", _PHI_MODULES),
            "family.stack.norm": "model.final_layernorm",
            "heads.lm.projection": "lm_head",
        }
        buffers = {
            r"rotary_emb\.inv_freq$",
        }
