"""Compare what two models compute, by their configurations."""

import math
from collections.abc import Iterator
from typing import Any, Final

from clozeline.configuration.config import computing_keys
from clozeline.model.configuration.model_config import ModelConfig

FULL: Final = "full_attention"
SLIDING: Final = "sliding_attention"


def write_layer_types(config: ModelConfig) -> list[str]:
    """Return the type of each layer."""
    return [SLIDING if config.is_local(layer) else FULL for layer in range(config.layers)]


_COMPARED_APART: Final = ("heads", "adapter", "local")
"""Keys that are merged, or compared by themselves."""


def computation_keys(config: ModelConfig) -> dict[str, object]:
    """Return the keys that determine the model's output, dotted, with defaults filled in.

    Keys of training alone, heads, and keys that the type of position does not read are excluded.
    """
    position = config.position
    read = ("kind", *position.READS[position.kind])
    relevant = {
        key: value
        for key, value in _walk_keys(config)
        if not key.startswith("position.") or key.split(".")[1] in read
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


def _walk_keys(part: Any, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield each dotted key that counts, and its value."""
    for name, value in computing_keys(part).items():
        if not prefix and name in _COMPARED_APART:
            continue
        if hasattr(type(value), "__pydantic_fields__"):
            yield from _walk_keys(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _local_layers(config: ModelConfig) -> dict[str, object]:
    """Return window, theta and types of the layers, equal for any spelling of the same layers."""
    layers = [layer for layer in range(config.layers) if config.is_local(layer)]
    if config.local is None or not layers:
        return {}
    theta = config.local.theta or config.position.theta
    return {
        "local.window": config.local.window,
        "local.theta": theta,
        "local.layer_types": write_layer_types(config),
    }


def differences(ours: ModelConfig, other: ModelConfig) -> dict[str, tuple[object, object]]:
    """Return the keys of the computation that differ, with both values; None: a missing key."""
    our_keys = computation_keys(ours)
    other_keys = computation_keys(other)
    same_kind = ours.position.kind == other.position.kind
    # another kind of positions has other keys, which follow from the kind
    keys = (
        {**our_keys, **other_keys} if same_kind else [key for key in our_keys if key in other_keys]
    )

    pairs = {key: (our_keys.get(key), other_keys.get(key)) for key in keys}
    return {
        key: (a, b)
        for key, (a, b) in pairs.items()
        if not (
            math.isclose(a, b, rel_tol=1e-12)
            if isinstance(a, float) and isinstance(b, float)
            else a == b
        )
    }
