"""Rotary positions in config.json: current keys, former keys, and a check that they agree."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.position import PositionConfig, ScalingConfig

T = TypeVar("T")

_ORIGINAL_MAXIMUM: Final = "original_max_position_embeddings"
_SHARE: Final = "partial_rotary_factor"
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", _ORIGINAL_MAXIMUM, "low_freq_factor", "high_freq_factor"),
    "yarn": ("factor", _ORIGINAL_MAXIMUM),
    "longrope": ("short_factor", "long_factor"),
}
"""Keys that each type of scaling requires."""


def single_value(model_type: str, by_key: Mapping[str, T], default: T) -> T:
    """Return the value that all keys of config.json share, `default` if there are no keys; refuse a contradiction."""
    values = list(by_key.values())
    if any(value != values[0] for value in values):
        listed = ", ".join(f"{key} {value}" for key, value in by_key.items())
        why = f"{listed}; keep the correct one"
        raise ConfigurationError(f"config.json of type {model_type}: rope keys contradict each other: {why}")
    return values[0] if values else default


def read_rotation(
    model_type: str, plain: Mapping[str, Any], theta: float = 10000.0, rotated: float | None = None
) -> dict[str, Any]:
    """Return our keys of rotary positions: theta, by default that of the type, and the scaling if there is one.

    `rotated` is the share of a head's components that the type rotates if no key says so; None: it always rotates all.

    Raises:
        ConfigurationError: keys contradict each other, are missing, or ask for an unsupported scaling.
    """
    forms = {key: plain[key] for key in ("rope_parameters", "rope_scaling") if plain.get(key)}
    for key, form in forms.items():
        if not isinstance(form, Mapping) or any(isinstance(value, Mapping) for value in form.values()):
            expected = "expected the keys and values of one rotation for all layers"
            raise ConfigurationError(f"config.json of type {model_type}: {key}: {expected}, got {form!r}")
    bases = {"rope_theta": plain["rope_theta"]} if plain.get("rope_theta") is not None else {}
    bases |= {f"{key}.rope_theta": form["rope_theta"] for key, form in forms.items() if form.get("rope_theta")}
    scalings = {key: _scaling(f"config.json of type {model_type}: {key}", form, plain) for key, form in forms.items()}
    scaling = single_value(model_type, scalings, {})
    sources = {"": plain, **{f"{key}.": form for key, form in forms.items()}}
    shares = {f"{at}{_SHARE}": part[_SHARE] for at, part in sources.items() if part.get(_SHARE) is not None}
    for key, value in shares.items() if rotated is None else ():
        if value != 1:
            raise ConfigurationError(f"config.json of type {model_type}: {key}: expected 1.0, got {value!r}")
    share = float(single_value(model_type, shares, rotated or 1.0))
    return {
        "position.theta": float(single_value(model_type, bases, theta)),
        **({} if share == 1.0 else {"position.partial_rotary_factor": share}),
        **{f"position.scaling.{key}": value for key, value in scaling.items()},
    }


def read_unscaled_base(model_type: str, plain: Mapping[str, Any], kind: str, former: str, theta: float) -> float:
    """Return the base of the rotation in one type of layers, where it is never scaled; `former` is its other key.

    Raises:
        ConfigurationError: the keys contradict each other, or ask for a scaling.
    """
    form = (plain.get("rope_parameters") or {}).get(kind) or {}
    if form.get("rope_type", "default") != "default":
        where, got = f"config.json of type {model_type}: rope_parameters.{kind}", form["rope_type"]
        raise ConfigurationError(f"{where}: expected rope_type default, got {got!r}")
    bases = {f"rope_parameters.{kind}.rope_theta": form.get("rope_theta"), former: plain.get(former)}
    return float(single_value(model_type, {key: base for key, base in bases.items() if base is not None}, theta))


def write_rotation(position: PositionConfig, *, partial: bool = False) -> dict[str, object]:
    """Return their keys in the current form, and in the former one for older readers; `partial`: with the share."""
    theta = {"rope_theta": position.theta} | ({_SHARE: position.partial_rotary_factor} if partial else {})
    scaling = position.scaling
    if scaling is None:
        return theta | {"rope_parameters": {"rope_type": "default", **theta}}
    form: dict[str, object] = {"rope_type": scaling.kind, **theta, "factor": scaling.factor}
    form |= {_theirs(key): getattr(scaling, key) for key in ScalingConfig.READS[scaling.kind]}
    # the class reads the original context length of a dynamic scaling from this key
    maximum = {"max_position_embeddings": form.pop(_ORIGINAL_MAXIMUM)} if scaling.kind == "dynamic" else {}
    form = {k: list(value) if isinstance(value, tuple) else value for k, value in form.items() if value is not None}
    return theta | maximum | {"rope_parameters": form, "rope_scaling": dict(form)}


def _scaling(where: str, form: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return our keys of a scaling, none if there is none."""
    kind = form.get("rope_type", form.get("type", "default"))
    if kind == "default":
        return {}
    if kind not in _REQUIRED:
        raise ConfigurationError(f"{where}: rope_type: expected one of default, {', '.join(_REQUIRED)}, got {kind!r}")
    present = {key: value for key, value in form.items() if value is not None}
    if missing := [key for key in _REQUIRED[kind] if key not in present]:
        raise ConfigurationError(f"{where}: {kind} needs the keys {', '.join(missing)}, got none")
    if kind == "dynamic":
        present[_ORIGINAL_MAXIMUM] = plain["max_position_embeddings"]
    if kind == "longrope":  # the class prefers the key outside of the mapping
        inside = present.get(_ORIGINAL_MAXIMUM, plain["max_position_embeddings"])
        present[_ORIGINAL_MAXIMUM] = plain.get(_ORIGINAL_MAXIMUM) or inside
        growth = plain["max_position_embeddings"] / present[_ORIGINAL_MAXIMUM]
        present["factor"] = max(1.0, float(present.get("factor", growth)))
    known = {_theirs(key): key for key in ("factor", *ScalingConfig.READS[kind])}
    others = {"rope_type", "type", "rope_theta", _SHARE}
    if unknown := sorted(present.keys() - known.keys() - others):
        raise ConfigurationError(f"{where}: {kind} does not read {', '.join(unknown)}; it reads {', '.join(known)}")
    return {"kind": kind, **{ours: present[theirs] for theirs, ours in known.items() if theirs in present}}


def _theirs(key: str) -> str:
    return _ORIGINAL_MAXIMUM if key == "original_maximum" else key
