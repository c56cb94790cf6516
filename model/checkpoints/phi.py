"""Phi 1, 1.5 and 2 (arXiv 2306.11644, 2309.05463)."""

from typing import Any, ClassVar

from clozeline.model.checkpoints._conversion.key_map import KeyMap, Keys, Tensors
from clozeline.model.checkpoints._conversion.rope_keys import read_rotation, write_rotation
from clozeline.model.checkpoints._conversion.tables import (
    ACTIVATIONS,
    DROPOUT,
    SCORE,
    SIZES,
    attention_names,
    layer_names,
    split_defaults,
)
from clozeline.model.checkpoints._conversion.task_heads import Task
from clozeline.model.configuration.model_config import ModelConfig

_MODULES = {
    **attention_names("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.dense"),
    "attention.body.query_norm": "self_attn.q_layernorm",
    "attention.body.key_norm": "self_attn.k_layernorm",
    "attention.norm": "input_layernorm",
    "feed_forward.body.up": "mlp.fc1",
    "feed_forward.body.down": "mlp.fc2",
}
"""Modules of a layer."""


class Phi(KeyMap):
    """Decoder whose blocks read the same normalized states, with a rotation of half of each head and a biased head."""

    model_type = "phi"
    stem = "Phi"
    base = "model."
    head_options: ClassVar = {"projection": "biased"}
    projections = ("biased",)
    tasks: ClassVar = {
        "ForSequenceClassification": SCORE,
        "ForTokenClassification": Task("score", dropout=DROPOUT, usual=0.1),
    }
    fixed: ClassVar = {"family": "decoder", "parallel": "one_norm", "position.kind": "rope"}
    fields, defaults = split_defaults(
        {
            **SIZES,
            "kv_heads": ("num_key_value_heads", None),
            "eps": ("layer_norm_eps", 1e-5),
            "tied": ("tie_word_embeddings", False),
            "position.maximum": ("max_position_embeddings", 2048),
            "dropout.hidden": ("resid_pdrop", 0.0),
            "dropout.embedding": ("embd_pdrop", 0.0),
            "dropout.attention": ("attention_dropout", 0.0),
            "init.std": ("initializer_range", 0.02),
        },
        hidden_act="gelu_new",
    )
    activations: ClassVar = {"gelu_new": "gelu_tanh"} | ACTIVATIONS
    also_read = ("rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor", "qk_layernorm")
    modules: ClassVar = {
        "family.tokens": "model.embed_tokens",
        **layer_names("family.stack", "model.layers", _MODULES),
        "family.stack.norm": "model.final_layernorm",
        "heads.lm.projection": "lm_head",
    }
    buffers = (r"rotary_emb\.inv_freq$",)

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        rotation = read_rotation(self.model_type, {**self.defaults, **plain}, rotated=0.5)
        return {**rotation, "qk_norm": "head" if plain.get("qk_layernorm") else None}

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        return {**write_rotation(config.position, partial=True), "qk_layernorm": config.qk_norm == "head"}
