"""OPT (arXiv 2205.01068)."""

from typing import Any, ClassVar, Final

from clozeline.model.checkpoints._conversion.key_map import KeyMap, Keys, Tensors
from clozeline.model.checkpoints._conversion.tables import (
    ACTIVATIONS,
    ANSWER,
    SCORE,
    attention_names,
    layer_names,
    split_defaults,
)
from clozeline.model.configuration.model_config import ModelConfig

_MODULES: Final = {
    **attention_names("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"),
    "attention.norm": "self_attn_layer_norm",
    "feed_forward.body.up": "fc1",
    "feed_forward.body.down": "fc2",
    "feed_forward.norm": "final_layer_norm",
}
"""Modules of a layer."""
_WIDTH: Final = "word_embed_proj_dim"


class Opt(KeyMap):
    """Decoder with learned positions from the third row of their table on, and a fixed eps.

    OPT-350m, whose token table is narrower than its layers, is refused: its positions are added after the projection.
    """

    model_type = "opt"
    stem = "OPT"
    base = "model."
    tasks: ClassVar = {"ForSequenceClassification": SCORE, "ForQuestionAnswering": ANSWER}
    fixed: ClassVar = {"family": "decoder", "eps": 1e-5, "position.kind": "learned", "position.offset": 2}
    fields, defaults = split_defaults(
        {
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
        },
        activation_function="relu",
    )
    only: ClassVar = {"layer_norm_elementwise_affine": (True,)}
    activation = "activation_function"
    activations: ClassVar = {"relu": "relu"} | ACTIVATIONS
    also_read = ("do_layer_norm_before", "_remove_final_layer_norm", _WIDTH, "layerdrop")
    modules: ClassVar = {
        "family.tokens": "model.decoder.embed_tokens",
        "family.stack.position.table": "model.decoder.embed_positions",
        **layer_names("family.stack", "model.decoder.layers", _MODULES),
        "family.stack.norm": "model.decoder.final_layer_norm",
        "heads.lm.projection": "lm_head",
    }

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        """Return where the norms are; refuse a token table of another width."""
        if (width := plain.get(_WIDTH)) not in (None, plain["hidden_size"]):
            why = "positions that are added after a projection are not built"
            self.refuse(_WIDTH, f"expected hidden_size {plain['hidden_size']}, got {width}: {why}")
        before = bool(plain.get("do_layer_norm_before", True))
        final = before and not plain.get("_remove_final_layer_norm", False)
        return {"norm_place": "pre" if before else "post", "final_norm": final}

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        before = config.norm_place == "pre"
        removed = before and not config.final_norm
        return {"do_layer_norm_before": before, "_remove_final_layer_norm": removed, _WIDTH: config.dim}
