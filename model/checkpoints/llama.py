"""Llama 1 to 3 (arXiv 2302.13971)."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from clozeline.model.checkpoints._conversion.config_keys import (
    read_layer_types,
    read_windows,
    write_layer_types,
    write_window,
)
from clozeline.model.checkpoints._conversion.key_map import KeyMap, Keys, Tensors
from clozeline.model.checkpoints._conversion.rope_keys import read_rotation, write_rotation
from clozeline.model.checkpoints._conversion.tables import (
    ACTIVATIONS,
    DROPOUT,
    SCORE,
    SIZES,
    Reshaped,
    Slice,
    attention_names,
    layer_names,
    split_defaults,
)
from clozeline.model.checkpoints._conversion.task_heads import Task
from clozeline.model.configuration.model_config import ModelConfig

PROJECTIONS: Final[Mapping[str, str]] = {
    **attention_names("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"),
    "feed_forward.body.gate": "mlp.gate_proj",
    "feed_forward.body.up": "mlp.up_proj",
    "feed_forward.body.down": "mlp.down_proj",
}
"""Linear maps of a layer, also in types derived from Llama."""
QK_NORMS: Final[Mapping[str, str]] = {
    "attention.body.query_norm": "self_attn.q_norm",
    "attention.body.key_norm": "self_attn.k_norm",
}
"""Norms of queries and keys in those of the types that have them."""
NORMS: Final = {"attention.norm": "input_layernorm", "feed_forward.norm": "post_attention_layernorm"}
"""Norms before the blocks of a layer."""


def llama_names(norms: Mapping[str, str]) -> dict[str, str | Slice | Reshaped]:
    """Return the modules of a model with the names of Llama, from the norms of its layers."""
    return {
        "family.tokens": "model.embed_tokens",
        **layer_names("family.stack", "model.layers", {**PROJECTIONS, **norms}),
        "family.stack.norm": "model.norm",
        "heads.lm.projection": "lm_head",
    }


class Llama(KeyMap):
    """Pre-norm decoder with RMSNorm, rotary positions, scaled or not, and a gated feed-forward block."""

    model_type = "llama"
    stem = "Llama"
    base = "model."
    tasks: ClassVar = {
        "ForSequenceClassification": SCORE,
        "ForTokenClassification": Task("score", dropout=DROPOUT, usual=0.1),
        "ForQuestionAnswering": Task("qa_outputs", options={"dropout": 0.0}, body=("model.", "transformer.")),
    }
    fixed: ClassVar = {"family": "decoder", "norm": "rms", "gated": True, "position.kind": "rope"}
    fields, defaults = split_defaults(
        {
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
        },
        hidden_act="silu",
    )
    theta: ClassVar[float] = 10000.0
    """Base of the rotation where config.json has none."""
    rotated: ClassVar[float | None] = None
    """share of a head's components that rotate without a key for it; None: the type always rotates all"""
    activations: ClassVar = {"gelu_pytorch_tanh": "gelu_tanh"} | ACTIVATIONS
    also_read: ClassVar[tuple[str, ...]] = ("rope_theta", "rope_scaling", "rope_parameters")
    modules: ClassVar = llama_names(NORMS)
    buffers = (r"rotary_emb\.inv_freq$",)

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        return read_rotation(self.model_type, {**self.defaults, **plain}, self.theta, self.rotated)

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        return write_rotation(config.position, partial=self.rotated is not None)


class LocalLlama(Llama):
    """Llama, some or all layers of which have a window; null, not an absent key, means that there is none."""

    lists_layers: ClassVar[bool] = True
    """The class reads `layer_types`; False: all layers have the window, whatever the list says."""

    def is_usually_local(self, layer: int, given: Keys) -> bool:
        """Return whether a layer has the window where config.json has no list; `given` has the defaults, too."""
        return True

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        """Return the rotation and the windows; without `use_sliding_window` the other keys of the window mean nothing.

        A list of layer types takes precedence over the keys that `is_usually_local` reads.
        """
        given = {**self.defaults, **plain}
        window = given["sliding_window"] if given.get("use_sliding_window", True) else None
        listed = plain if self.lists_layers else {**plain, "layer_types": None}
        kinds = read_layer_types(
            self.model_type, listed, lambda layer: window is not None and self.is_usually_local(layer, given)
        )
        return super().more_of_ours(plain, tensors) | read_windows(self.model_type, kinds, window)

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        window = write_window(config)
        keys: dict[str, Any] = {"sliding_window": window}
        if "use_sliding_window" in self.defaults:
            keys["use_sliding_window"] = window is not None
        if self.lists_layers:
            keys["layer_types"] = write_layer_types(config)
        return super().more_of_theirs(config) | keys
