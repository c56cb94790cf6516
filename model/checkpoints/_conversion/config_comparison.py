"""Compare configurations by what the model computes."""

import math
from collections.abc import Mapping
from typing import Any, Final

from clozeline.configuration.config import adapter_of, flatten
from clozeline.model.checkpoints._conversion.layer_types import write_layer_types
from clozeline.model.configuration.model_config import ModelConfig

_ONLY_TRAINING: Final = (
    *("dropout.", "init.", "heads.", "vocab_multiple", "init_from", "adapter", "quantization"),
    *("position.disentangled.mask_decoder", "share.universal.ponder"),
)
_OF_KIND: Final = {
    "learned": ("kind", "maximum", "offset"),
    "sinusoidal": ("kind", "waves"),
    "rope": ("kind", "theta", "scaling", "partial_rotary_factor", "nope_layers"),
    "t5": ("kind", "buckets", "max_distance", "per_layer"),
    "none": ("kind",),
}
"""Keys of `position` that each kind reads."""


def computation(config: ModelConfig) -> dict[str, Any]:
    """Return the keys that determine the model's output, dotted, with defaults filled in.

    Not included: dropout, initialization, heads, padding of the vocabulary, and keys that the kind of position ignores.
    """
    flat = flatten(adapter_of(type(config)).dump_python(config, mode="json"))
    read = tuple(f"position.{key}" for key in (*_OF_KIND[config.position.kind], "disentangled"))
    relevant = {
        key: value
        for key, value in flat.items()
        if not key.startswith((*_ONLY_TRAINING, "local")) and (key.startswith(read) or not key.startswith("position."))
    }
    return relevant | {
        "head_dim": config.head_width,
        "kv_heads": config.key_value_heads,
        "decoder_layers": config.decoder_depth,
        "connector": config.connector is not None,
        "decoder_dim": config.decoder_dim or config.dim,
        "decoder_attention_heads": config.decoder_attention_heads or config.attention_heads,
        "decoder_ffn_dim": config.decoder_ffn_dim or config.ffn_dim,
        "bias.norm": config.bias.norm or config.norm != "layer",
        "emb_dim": config.embedding_width,
        "out_dim": config.output_width,
        "share.groups": config.layer_groups,
        "qk_scale": config.qk_scale or (config.head_width * config.position.terms) ** -0.5,
        **_local_layers(config),
    }


def _local_layers(config: ModelConfig) -> dict[str, Any]:
    """Return the window, the base and the layers that have them; two spellings of the same layers are equal."""
    layers = [layer for layer in range(config.layers) if config.is_local(layer)]
    if config.local is None or not layers:
        return {}
    theta = config.local.theta or config.position.theta
    return {"local.window": config.local.window, "local.theta": theta, "local.layer_types": write_layer_types(config)}


def differences(ours: ModelConfig, other: ModelConfig) -> dict[str, tuple[Any, Any]]:
    """Return the keys of the computation that differ, with both values; None for a key that one of them lacks."""
    here, there = computation(ours), computation(other)
    pairs = {key: (here.get(key), there.get(key)) for key in {**here, **there}}
    return {
        key: (a, b)
        for key, (a, b) in pairs.items()
        if not (math.isclose(a, b, rel_tol=1e-12) if isinstance(a, float) and isinstance(b, float) else a == b)
    }


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with dotted keys as nested mappings."""
    plain: dict[str, Any] = {}
    for key, value in flat.items():
        *folders, last = key.split(".")
        at = plain
        for folder in folders:
            at = at.setdefault(folder, {})
        at[last] = value
    return plain
