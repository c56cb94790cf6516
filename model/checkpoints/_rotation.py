"""Rotary positions in config.json: the present keys, the former ones, and agreement between both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.position import PositionConfig, ScalingConfig

T = TypeVar("T")

_OLD_PLACES: Final = "original_max_position_embeddings"
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", _OLD_PLACES, "low_freq_factor", "high_freq_factor"),
    "yarn": ("factor", _OLD_PLACES),
}
"""Keys that each kind of scaling must have."""


def single_value(model_type: str, found: Mapping[str, T], default: T) -> T:
    """Return the one value that keys of config.json hold, `default` if there are no keys.

    Raises:
        ConfigurationError: they hold several.
    """
    values = list(found.values())
    if any(value != values[0] for value in values):
        listed = ", ".join(f"{key} {value}" for key, value in found.items())
        raise ConfigurationError(
            f"config.json of type {model_type}: rope keys contradict each other: {listed}; leave the right one"
        )
    return values[0] if values else default


def read_rotation(model_type: str, plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return our keys of rotary positions: the base, and the scaling where there is one.

    Raises:
        ConfigurationError: keys contradict each other, miss, or ask for a scaling that is not built.
    """
    forms = {key: plain[key] for key in ("rope_parameters", "rope_scaling") if plain.get(key)}
    for key, form in forms.items():
        if not isinstance(form, Mapping):
            raise ConfigurationError(f"config.json of type {model_type}: {key}: expected keys and values, got {form!r}")
    bases = {"rope_theta": plain["rope_theta"]} if plain.get("rope_theta") is not None else {}
    bases |= {f"{key}.rope_theta": form["rope_theta"] for key, form in forms.items() if form.get("rope_theta")}
    scalings = {key: _scaling(f"config.json of type {model_type}: {key}", form, plain) for key, form in forms.items()}
    scaling = single_value(model_type, scalings, {})
    return {
        "position.theta": float(single_value(model_type, bases, 10000.0)),
        **{f"position.scaling.{key}": value for key, value in scaling.items()},
    }


def write_rotation(position: PositionConfig) -> dict[str, Any]:
    """Return their keys in the present form, and in the former one for older readers."""
    theta = {"rope_theta": position.theta}
    scaling = position.scaling
    if scaling is None:
        return theta | {"rope_parameters": {"rope_type": "default", **theta}}
    form: dict[str, Any] = {"rope_type": scaling.kind, **theta, "factor": scaling.factor}
    form |= {_theirs(key): getattr(scaling, key) for key in ScalingConfig.READS[scaling.kind]}
    places = {}
    if scaling.kind == "dynamic":  # the class takes the places of the first training from here
        places["max_position_embeddings"] = form.pop(_OLD_PLACES)
    form = {key: value for key, value in form.items() if value is not None}
    return theta | places | {"rope_parameters": form, "rope_scaling": dict(form)}


def _scaling(where: str, form: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return our keys of a scaling, none if there is none."""
    kind = form.get("rope_type", form.get("type", "default"))
    if form.get("partial_rotary_factor", 1.0) != 1.0:
        raise ConfigurationError(
            f"{where}.partial_rotary_factor: expected 1.0: heads rotate whole, got {form['partial_rotary_factor']!r}"
        )
    if kind == "default":
        return {}
    if kind not in _REQUIRED:
        raise ConfigurationError(f"{where}: rope_type: expected one of default, {', '.join(_REQUIRED)}, got {kind!r}")
    given = {key: value for key, value in form.items() if value is not None}
    if missing := [key for key in _REQUIRED[kind] if key not in given]:
        raise ConfigurationError(f"{where}: {kind} needs the keys {', '.join(missing)}, got none")
    if kind == "dynamic":
        given[_OLD_PLACES] = plain["max_position_embeddings"]
    known = {_theirs(key): key for key in ("factor", *ScalingConfig.READS[kind])}
    others = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}
    if unknown := sorted(given.keys() - known.keys() - others):
        raise ConfigurationError(f"{where}: {kind} does not read {', '.join(unknown)}; it reads {', '.join(known)}")
    return {"kind": kind, **{ours: given[theirs] for theirs, ours in known.items() if theirs in given}}


def _theirs(key: str) -> str:
    return _OLD_PLACES if key == "original_maximum" else key
