"""Read config.json, write its lists of local layers, and compare configurations by what the model computes."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from clozeline.configuration.config import adapter_of, flatten
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import ModelConfig

FULL: Final = "full_attention"
SLIDING: Final = "sliding_attention"


def read_layer_types(model_type: str, plain: Mapping[str, object], is_local: Callable[[int], bool]) -> list[str]:
    """Return the type of each layer: the list of config.json, or by `is_local` if there is none.

    Raises:
        ConfigurationError: the list has other types, or not one for each layer.
    """
    layers, listed = plain.get("num_hidden_layers"), plain.get("layer_types")
    if listed is None:
        return [SLIDING if is_local(layer) else FULL for layer in range(layers if isinstance(layers, int) else 0)]
    if not isinstance(listed, Sequence) or any(kind not in (FULL, SLIDING) for kind in listed):
        raise ConfigurationError(
            f"config.json of type {model_type}: layer_types: expected {FULL} or {SLIDING} for each layer, got {listed}"
        )
    if len(listed) != layers:
        expected = f"expected a type for each of num_hidden_layers {layers}, got {len(listed)}"
        raise ConfigurationError(f"config.json of type {model_type}: layer_types: {expected}")
    return list(listed)


def read_windows(model_type: str, kinds: Sequence[str], window: object) -> dict[str, object]:
    """Return our keys of the local layers of a decoder; none if no layer is local.

    Args:
        model_type: for messages.
        kinds: type of each layer.
        window: tokens that a local layer reads, the query's own included; None: there is no window.

    Example:
        >>> read_windows("mistral", [SLIDING], 4)
        {'local.window': 3, 'local.layer_types': ('sliding_attention',)}
    """
    if SLIDING not in kinds:
        return {}
    if not isinstance(window, int) or window < 1:
        expected = f"{SLIDING} needs a window of 1 or more tokens, got {window}"
        raise ConfigurationError(f"config.json of type {model_type}: sliding_window: {expected}")
    return {"local.window": window - 1, "local.layer_types": tuple(kinds)}


def write_layer_types(config: ModelConfig) -> list[str]:
    """Return the type of each layer."""
    return [SLIDING if config.is_local(layer) else FULL for layer in range(config.layers)]


def write_window(config: ModelConfig) -> int | None:
    """Return the tokens that a local layer of a decoder reads, the query's own included; None without such a layer."""
    return config.local.window + 1 if config.local is not None and SLIDING in write_layer_types(config) else None


_ONLY_TRAINING: Final = (
    *("dropout.", "init.", "heads.", "vocab_multiple", "init_from", "adapter", "quantization"),
    *("position.disentangled.mask_decoder", "share.universal.ponder"),
)


def computation(config: ModelConfig) -> dict[str, object]:
    """Return the keys that determine the model's output, dotted, with defaults filled in.

    Not included: dropout, initialization, heads, padding of the vocabulary, and keys that the kind of position ignores.
    """
    flat = flatten(adapter_of(type(config)).dump_python(config, mode="json"))
    read = tuple(f"position.{key}" for key in ("kind", *config.position.READS[config.position.kind]))
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


def _local_layers(config: ModelConfig) -> dict[str, object]:
    """Return the window, the base and the layers that have them; two spellings of the same layers are equal."""
    layers = [layer for layer in range(config.layers) if config.is_local(layer)]
    if config.local is None or not layers:
        return {}
    theta = config.local.theta or config.position.theta
    return {"local.window": config.local.window, "local.theta": theta, "local.layer_types": write_layer_types(config)}


def differences(ours: ModelConfig, other: ModelConfig) -> dict[str, tuple[object, object]]:
    """Return the keys of the computation that differ, with both values; None for a key that one of them lacks."""
    here, there = computation(ours), computation(other)
    same_positions = ours.position.kind == other.position.kind
    # another kind of position has other keys, which follow from the kind
    keys = {**here, **there} if same_positions else [key for key in here if key in there]
    pairs = {key: (here.get(key), there.get(key)) for key in keys}
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
