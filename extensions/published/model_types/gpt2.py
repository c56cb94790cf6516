"""Decoders with learned positions: GPT-2 and GPT-3's dense layers, GPT-1, and OPT."""

from collections.abc import Mapping
from typing import Final

from clozeline.extensions.published.conversion.classes import Classes
from clozeline.extensions.published.conversion.key_map import KeyMap
from clozeline.extensions.published.conversion.tables import (
    ACTIVATIONS,
    ANSWER,
    DECODER_TAGS,
    QKV,
    SCORE,
    Keys,
    Table,
    Tensors,
    Values,
    attention_names,
    fused_names,
    layer_names,
)
from clozeline.model.configuration.model_config import ModelConfig

LAYER: Mapping[str, str] = {
    "attention.body.out": "attn.c_proj",
    "attention.norm": "ln_1",
    "feed_forward.body.up": "mlp.c_fc",
    "feed_forward.body.down": "mlp.c_proj",
    "feed_forward.norm": "ln_2",
}
"""Modules of a layer, also in GPT-1."""
TABLE: Table = {
    "dim": "n_embd",
    "layers": "n_layer",
    "attention_heads": "n_head",
    "eps": ("layer_norm_epsilon", 1e-5),
    "tied": ("tie_word_embeddings", True),
    "position.maximum": "n_positions",
    "dropout.hidden": ("resid_pdrop", 0.1),
    "dropout.embedding": ("embd_pdrop", 0.1),
    "dropout.attention": ("attn_pdrop", 0.1),
    "init.std": ("initializer_range", 0.02),
}
"""Our keys, each with its key of config.json, also for GPT-1."""


class Gpt2Keys(KeyMap):
    """GPT-2 and GPT-3's dense layers.

    Pre-norm decoder; matrices are stored [in, out], and one of them holds queries, keys and values.
    """

    model_type = "gpt2"
    classes = Classes(
        "GPT2",
        head_classes={("lm",): "LMHeadModel"},
        tasks={
            "ForSequenceClassification": SCORE,
            "ForTokenClassification": DECODER_TAGS,
            "ForQuestionAnswering": ANSWER,
        },
    )

    class Configuration(KeyMap.Configuration):
        fixed = {"family": "decoder", "position.kind": "learned", "init.scale_residual": True}
        table = {
            **TABLE,
            "scale_by_depth": ("scale_attn_by_inverse_layer_idx", False),
            "activation": ("activation_function", "gelu_new"),
        }
        supported = {"add_cross_attention": (False,)}
        activations = {"gelu_new": "gelu_tanh"} | ACTIVATIONS
        extra_keys = {"n_inner", "scale_attn_weights", "n_ctx"}

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            """Return the inner width, by default 4 times the outer, and the scale of scores."""
            inner = config_json.get("n_inner")
            return {
                "ffn_dim": 4 * config_json["n_embd"] if inner is None else inner,
                "qk_scale": None if config_json.get("scale_attn_weights", True) else 1.0,
            }

        def write_extra(self, config: ModelConfig) -> Values:
            """Return the inner width, the scale of scores, and the length for llama.cpp."""
            scaled = config.qk_scale != 1.0
            return {
                "n_inner": config.ffn_dim,
                "scale_attn_weights": scaled,
                "n_ctx": config.position.maximum,
            }

    class Tensors(KeyMap.Tensors):
        base = "transformer."
        modules = {
            "family.tokens": "transformer.wte",
            "family.stack.position.table": "transformer.wpe",
            **layer_names("family.stack", "transformer.h", LAYER),
            **fused_names("transformer.h.{i}.attn.c_attn", QKV),
            "family.stack.norm": "transformer.ln_f",
            "heads.lm.projection": "lm_head",
        }
        transposed = ("c_attn", "c_proj", "c_fc")
        buffers = {r"\.attn\.bias$", r"\.attn\.masked_bias$"}


class OpenaiGptKeys(KeyMap):
    """GPT-1 (Radford et al. 2018).

    Post-norm decoder without a final norm; its "gelu" is the tanh approximation.
    """

    model_type = "openai-gpt"
    classes = Classes(
        "OpenAIGPT",
        head_classes={("lm",): "LMHeadModel"},
        tasks={"ForSequenceClassification": SCORE},
    )

    class Configuration(KeyMap.Configuration):
        fixed = {
            "family": "decoder",
            "norm_place": "post",
            "final_norm": False,
            "position.kind": "learned",
        }
        table = {**TABLE, "activation": ("afn", "gelu")}
        activations = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            return {"ffn_dim": 4 * config_json["n_embd"]}

    class Tensors(KeyMap.Tensors):
        base = "transformer."
        modules = {
            "family.tokens": "transformer.tokens_embed",
            "family.stack.position.table": "transformer.positions_embed",
            **layer_names("family.stack", "transformer.h", LAYER),
            **fused_names("transformer.h.{i}.attn.c_attn", QKV),
            "heads.lm.projection": "lm_head",
        }
        transposed = ("c_attn", "c_proj", "c_fc")
        buffers = {r"\.attn\.bias$", r"(^|\.)position_ids$"}


_OPT_LAYER_MODULES: Final = {
    **attention_names(
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"
    ),
    "attention.norm": "self_attn_layer_norm",
    "feed_forward.body.up": "fc1",
    "feed_forward.body.down": "fc2",
    "feed_forward.norm": "final_layer_norm",
}
"""Modules of a layer."""
_TABLE_WIDTH_KEY: Final = "word_embed_proj_dim"


class OptKeys(KeyMap):
    """OPT (arXiv 2205.01068).

    Decoder with a fixed eps and learned positions, which start in the third row of their table.

    OPT-350m, whose token table is narrower than its layers, is refused: its positions are added
    after the projection.
    """

    model_type = "opt"
    classes = Classes(
        "OPT", tasks={"ForSequenceClassification": SCORE, "ForQuestionAnswering": ANSWER}
    )

    class Configuration(KeyMap.Configuration):
        fixed = {"family": "decoder", "eps": 1e-5, "position.kind": "learned", "position.offset": 2}
        table = {
            "dim": "hidden_size",
            "layers": "num_hidden_layers",
            "attention_heads": "num_attention_heads",
            "ffn_dim": "ffn_dim",
            "tied": ("tie_word_embeddings", True),
            "bias.qkv": ("enable_bias", True),
            "bias.out": "enable_bias",
            "bias.ffn": "enable_bias",
            "position.maximum": ("max_position_embeddings", 2048),
            "dropout.hidden": ("dropout", 0.1),
            "dropout.attention": ("attention_dropout", 0.0),
            "init.std": ("init_std", 0.02),
            "activation": ("activation_function", "relu"),
        }
        supported = {"layer_norm_elementwise_affine": (True,)}
        activations = {"relu": "relu"} | ACTIVATIONS
        extra_keys = {
            "do_layer_norm_before",
            "_remove_final_layer_norm",
            _TABLE_WIDTH_KEY,
            "layerdrop",
        }

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            """Return where the norms are; refuse a token table of another width."""
            if (width := config_json.get(_TABLE_WIDTH_KEY)) not in (
                None,
                config_json["hidden_size"],
            ):
                self.refuse(
                    _TABLE_WIDTH_KEY,
                    f"expected hidden_size {config_json['hidden_size']}, got {width}: positions "
                    "that are added after a projection are not supported",
                )
            before = bool(config_json.get("do_layer_norm_before", True))
            final = before and not config_json.get("_remove_final_layer_norm", False)
            return {"norm_place": "pre" if before else "post", "final_norm": final}

        def write_extra(self, config: ModelConfig) -> Values:
            before = config.norm_place == "pre"
            removed = before and not config.final_norm
            return {
                "do_layer_norm_before": before,
                "_remove_final_layer_norm": removed,
                _TABLE_WIDTH_KEY: config.dim,
            }

    class Tensors(KeyMap.Tensors):
        base = "model."
        modules = {
            "family.tokens": "model.decoder.embed_tokens",
            "family.stack.position.table": "model.decoder.embed_positions",
            **layer_names("family.stack", "model.decoder.layers", _OPT_LAYER_MODULES),
            "family.stack.norm": "model.decoder.final_layer_norm",
            "heads.lm.projection": "lm_head",
        }
