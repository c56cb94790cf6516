"""GPT-2 and GPT-3's dense layers."""

from collections.abc import Mapping
from typing import Any, ClassVar

from clozeline.model.checkpoints._conversion.key_map import KeyMap, Keys, Tensors
from clozeline.model.checkpoints._conversion.tables import (
    ACTIVATIONS,
    ANSWER,
    DECODER_TAGS,
    QKV,
    SCORE,
    fused_names,
    layer_names,
    split_defaults,
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
FIELDS, DEFAULTS = split_defaults(
    {
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
)
"""Keys of config.json for ours, also in GPT-1."""


class Gpt2(KeyMap):
    """Pre-norm decoder; matrices are stored [in, out], with queries, keys and values fused."""

    model_type = "gpt2"
    stem = "GPT2"
    class_ends: ClassVar = {("lm",): "LMHeadModel"}
    base = "transformer."
    tasks: ClassVar = {
        "ForSequenceClassification": SCORE,
        "ForTokenClassification": DECODER_TAGS,
        "ForQuestionAnswering": ANSWER,
    }
    fixed: ClassVar = {"family": "decoder", "position.kind": "learned", "init.scale_residual": True}
    fields: ClassVar = {**FIELDS, "scale_by_depth": "scale_attn_by_inverse_layer_idx"}
    defaults: ClassVar = {**DEFAULTS, "activation_function": "gelu_new", "scale_attn_by_inverse_layer_idx": False}
    only: ClassVar = {"add_cross_attention": (False,)}
    activation = "activation_function"
    activations: ClassVar = {"gelu_new": "gelu_tanh"} | ACTIVATIONS
    also_read = ("n_inner", "scale_attn_weights", "n_ctx")
    modules: ClassVar = {
        "family.tokens": "transformer.wte",
        "family.stack.position.table": "transformer.wpe",
        **layer_names("family.stack", "transformer.h", LAYER),
        **fused_names("transformer.h.{i}.attn.c_attn", QKV),
        "family.stack.norm": "transformer.ln_f",
        "heads.lm.projection": "lm_head",
    }
    transposed = ("c_attn", "c_proj", "c_fc")
    buffers = (r"\.attn\.bias$", r"\.attn\.masked_bias$")

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        """Return the inner width, by default four times the outer, and the factor of the scores."""
        inner = plain.get("n_inner")
        return {
            "ffn_dim": 4 * plain["n_embd"] if inner is None else inner,
            "qk_scale": None if plain.get("scale_attn_weights", True) else 1.0,
        }

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        """Return the inner width, the scale of scores, and the former name of the length, which llama.cpp reads."""
        scaled = config.qk_scale != 1.0
        return {"n_inner": config.ffn_dim, "scale_attn_weights": scaled, "n_ctx": config.position.maximum}
