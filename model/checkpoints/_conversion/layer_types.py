"""Local layers in config.json: the list `layer_types`, and windows that count a token itself."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import ModelConfig

FULL: Final = "full_attention"
SLIDING: Final = "sliding_attention"


def read_layer_types(model_type: str, plain: Mapping[str, Any], is_local: Callable[[int], bool]) -> list[str]:
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


def read_windows(model_type: str, kinds: Sequence[str], window: Any) -> dict[str, Any]:
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
