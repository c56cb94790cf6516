"""Read keys of config.json, and write lists of local layers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.computed_keys import FULL, SLIDING, write_layer_types
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import PositionConfig, ScalingConfig


def read_layer_types(
    model_type: str, config_json: Mapping[str, object], is_local: Callable[[int], bool]
) -> list[str]:
    """Return the type of each layer: from the list in config.json, otherwise by `is_local`.

    Raises:
        ConfigurationError: the list has other types, or another length.
    """
    layers = config_json.get("num_hidden_layers")
    listed = config_json.get("layer_types")
    # without a list, the rule of the model type decides
    if listed is None:
        return [
            SLIDING if is_local(layer) else FULL
            for layer in range(layers if isinstance(layers, int) else 0)
        ]
    # a list must have one known type for each layer
    if not isinstance(listed, Sequence) or any(entry not in (FULL, SLIDING) for entry in listed):
        raise ConfigurationError(
            f"config.json of type {model_type}: layer_types: expected {FULL} or {SLIDING} for each "
            f"layer, got {listed}"
        )

    if len(listed) != layers:
        expected = f"expected a type for each of num_hidden_layers {layers}, got {len(listed)}"
        raise ConfigurationError(f"config.json of type {model_type}: layer_types: {expected}")

    return list(listed)


def read_windows(model_type: str, types: Sequence[str], window: object) -> dict[str, object]:
    """Return our keys of the local layers of a decoder; empty if no layer is local.

    Args:
        model_type: for messages.
        types: type of each layer.
        window: tokens that a local layer reads, including the query's own; None: no window.

    Example:
        >>> read_windows("mistral", [SLIDING], 4)
        {'local.window': 3, 'local.layer_types': ('sliding_attention',)}
    """
    if SLIDING not in types:
        return {}
    if not isinstance(window, int) or window < 1:
        expected = f"{SLIDING} needs a window of 1 or more tokens, got {window}"
        raise ConfigurationError(f"config.json of type {model_type}: sliding_window: {expected}")
    return {"local.window": window - 1, "local.layer_types": tuple(types)}


def write_window(config: ModelConfig) -> int | None:
    """Return the number of tokens that a local layer reads, or None without such layers."""
    return (
        config.local.window + 1
        if config.local is not None and SLIDING in write_layer_types(config)
        else None
    )


def nest_keys(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with dotted keys as nested mappings."""
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *folders, last = key.split(".")
        level = nested
        for folder in folders:
            level = level.setdefault(folder, {})
        level[last] = value
    return nested


Value = TypeVar("Value")

_ORIGINAL_MAXIMUM: Final = "original_max_position_embeddings"
_ROTATED_SHARE: Final = "partial_rotary_factor"
_REQUIRED_SCALING_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", _ORIGINAL_MAXIMUM, "low_freq_factor", "high_freq_factor"),
    "yarn": ("factor", _ORIGINAL_MAXIMUM),
    "longrope": ("short_factor", "long_factor"),
}
"""Keys that each type of scaling requires."""


def single_value(model_type: str, by_key: Mapping[str, Value], default: Value) -> Value:
    """Return the value that all keys of config.json share; `default` if there are no keys.

    Raises:
        ConfigurationError: the keys contradict each other.
    """
    values = list(by_key.values())
    if any(value != values[0] for value in values):
        listed = ", ".join(f"{key} {value}" for key, value in by_key.items())
        raise ConfigurationError(
            f"config.json of type {model_type}: rope keys contradict each other: {listed}; keep "
            "the correct one"
        )
    return values[0] if values else default


def read_rotation(
    model_type: str,
    config_json: Mapping[str, Any],
    theta: float = 10000.0,
    rotated: float | None = None,
) -> dict[str, Any]:
    """Return our keys of rotary positions: theta, and the scaling if there is one.

    `theta` is the type's default. `rotated` is the share of a head's components that the type
    rotates if no key says so; None: it always rotates all.

    Raises:
        ConfigurationError: keys contradict each other, are missing, or ask for an unsupported
            scaling.
    """
    forms = {
        key: config_json[key] for key in ("rope_parameters", "rope_scaling") if config_json.get(key)
    }
    for key, form in forms.items():
        if not isinstance(form, Mapping) or any(
            isinstance(value, Mapping) for value in form.values()
        ):
            expected = "expected the keys and values of one rotation for all layers"
            raise ConfigurationError(
                f"config.json of type {model_type}: {key}: {expected}, got {form!r}"
            )
    # theta, scaling and share can each stand at several places, which must agree
    bases = (
        {"rope_theta": config_json["rope_theta"]}
        if config_json.get("rope_theta") is not None
        else {}
    )

    bases |= {
        f"{key}.rope_theta": form["rope_theta"]
        for key, form in forms.items()
        if form.get("rope_theta")
    }

    scalings = {
        key: _scaling(f"config.json of type {model_type}: {key}", form, config_json)
        for key, form in forms.items()
    }
    scaling = single_value(model_type, scalings, {})
    sources = {"": config_json, **{f"{key}.": form for key, form in forms.items()}}
    shares = {
        f"{prefix}{_ROTATED_SHARE}": part[_ROTATED_SHARE]
        for prefix, part in sources.items()
        if part.get(_ROTATED_SHARE) is not None
    }
    for key, value in shares.items() if rotated is None else ():
        if value != 1:
            raise ConfigurationError(
                f"config.json of type {model_type}: {key}: expected 1.0, got {value!r}"
            )

    share = float(single_value(model_type, shares, rotated or 1.0))
    return {
        "position.theta": float(single_value(model_type, bases, theta)),
        **({} if share == 1.0 else {"position.partial_rotary_factor": share}),
        **{f"position.scaling.{key}": value for key, value in scaling.items()},
    }


def read_unscaled_base(
    model_type: str, config_json: Mapping[str, Any], layer_type: str, former: str, theta: float
) -> float:
    """Return the base of the rotation in one type of layers, where it is never scaled.

    `former` is the key of the base in older files.

    Raises:
        ConfigurationError: the keys contradict each other, or ask for a scaling.
    """
    form = (config_json.get("rope_parameters") or {}).get(layer_type) or {}
    if form.get("rope_type", "default") != "default":
        where = f"config.json of type {model_type}: rope_parameters.{layer_type}"
        got = form["rope_type"]
        raise ConfigurationError(f"{where}: expected rope_type default, got {got!r}")

    bases = {
        f"rope_parameters.{layer_type}.rope_theta": form.get("rope_theta"),
        former: config_json.get(former),
    }
    return float(
        single_value(
            model_type, {key: base for key, base in bases.items() if base is not None}, theta
        )
    )


def write_rotation(position: PositionConfig, *, partial: bool = False) -> dict[str, object]:
    """Return the keys of config.json in the current form, and in the former one for older readers.

    `partial`: also write the share of components that rotate.
    """
    theta = {"rope_theta": position.theta} | (
        {_ROTATED_SHARE: position.partial_rotary_factor} if partial else {}
    )
    scaling = position.scaling
    if scaling is None:
        return theta | {"rope_parameters": {"rope_type": "default", **theta}}
    form: dict[str, object] = {"rope_type": scaling.kind, **theta, "factor": scaling.factor}
    form |= {
        _published_key(key): getattr(scaling, key) for key in ScalingConfig.READS[scaling.kind]
    }
    # the class reads the original context length of a dynamic scaling from this key
    maximum = (
        {"max_position_embeddings": form.pop(_ORIGINAL_MAXIMUM)}
        if scaling.kind == "dynamic"
        else {}
    )

    form = {
        k: list(value) if isinstance(value, tuple) else value
        for k, value in form.items()
        if value is not None
    }

    return theta | maximum | {"rope_parameters": form, "rope_scaling": dict(form)}


def _scaling(where: str, form: Mapping[str, Any], config_json: Mapping[str, Any]) -> dict[str, Any]:
    """Return our keys of a scaling; empty: no scaling."""
    rope_type = form.get("rope_type", form.get("type", "default"))
    if rope_type == "default":
        return {}
    if rope_type not in _REQUIRED_SCALING_KEYS:
        raise ConfigurationError(
            f"{where}: rope_type: expected one of default, {', '.join(_REQUIRED_SCALING_KEYS)}, "
            f"got {rope_type!r}"
        )

    present = {key: value for key, value in form.items() if value is not None}
    if missing := [key for key in _REQUIRED_SCALING_KEYS[rope_type] if key not in present]:
        raise ConfigurationError(f"{where}: {rope_type} needs the keys {', '.join(missing)}")

    # add context lengths, which stand outside the mapping
    if rope_type == "dynamic":
        present[_ORIGINAL_MAXIMUM] = config_json["max_position_embeddings"]
    if rope_type == "longrope":  # the class prefers the key outside the mapping
        inside = present.get(_ORIGINAL_MAXIMUM, config_json["max_position_embeddings"])
        present[_ORIGINAL_MAXIMUM] = config_json.get(_ORIGINAL_MAXIMUM) or inside
        growth = config_json["max_position_embeddings"] / present[_ORIGINAL_MAXIMUM]
        present["factor"] = max(1.0, float(present.get("factor", growth)))

    our_keys = {_published_key(key): key for key in ("factor", *ScalingConfig.READS[rope_type])}
    read_elsewhere = {"rope_type", "type", "rope_theta", _ROTATED_SHARE}
    if unknown := sorted(present.keys() - our_keys.keys() - read_elsewhere):
        raise ConfigurationError(
            f"{where}: {rope_type} does not read {', '.join(unknown)}; it reads "
            f"{', '.join(our_keys)}"
        )

    return {
        "kind": rope_type,
        **{ours: present[key] for key, ours in our_keys.items() if key in present},
    }


def _published_key(key: str) -> str:
    return _ORIGINAL_MAXIMUM if key == "original_maximum" else key
