"""Read config.json: required keys, supported values, activations."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from clozeline.configuration.config import adapter_of
from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints._conversion.config_comparison import nested
from clozeline.model.configuration.model_config import ModelConfig


def read_fields(
    model_type: str, plain: Mapping[str, Any], fields: Mapping[str, str], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return our dotted keys with the values of theirs; refuse a config.json without required keys."""
    if missing := sorted({theirs for theirs in fields.values() if theirs not in {**defaults, **plain}}):
        raise ConfigurationError(f"config.json of type {model_type}: expected the keys {', '.join(missing)}, got none")
    return {ours: plain.get(theirs, defaults.get(theirs)) for ours, theirs in fields.items()}


def read_activation(model_type: str, name: Any, key: str, activations: Mapping[str, str]) -> str:
    """Return our name of an activation; refuse one without counterpart."""
    if name not in activations:
        expected = f"expected one of {', '.join(activations)}, got {name!r}"
        raise ConfigurationError(f"config.json of type {model_type}: {key}: {expected}")
    return activations[name]


def refuse_other_values(model_type: str, plain: Mapping[str, Any], only: Mapping[str, tuple[Any, ...]]) -> None:
    """Refuse values that select a computation our families do not have; the message lists all of them."""
    other = [key for key, values in only.items() if key in plain and plain[key] not in values]
    if other:
        wrong = "; ".join(f"{key}: expected {only[key][0]!r}, got {plain[key]!r}" for key in other)
        raise ConfigurationError(f"config.json of type {model_type} asks for a computation that is not built: {wrong}")


def validate_config(model_type: str, flat: Mapping[str, Any]) -> ModelConfig:
    """Return the configuration; refuse values of a wrong type or range, and values that contradict each other."""
    try:
        return adapter_of(ModelConfig).validate_python(nested(flat))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"])) or "model"
        raise ConfigurationError(f"config.json of type {model_type}: {key}: {first['msg']}") from error
