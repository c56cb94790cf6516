"""Keys that a configuration gives and nothing reads, because another key chose otherwise."""

from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from pydantic.fields import FieldInfo


def non_default_keys(part: Any) -> dict[str, Any]:
    """Return the values of a configuration that differ from the defaults of its class."""
    values = ((field, getattr(part, field.name)) for field in fields(part))
    return {field.name: value for field, value in values if value != _default(field)}


def _default(field: Field[Any]) -> Any:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return default.default if isinstance(default, FieldInfo) else default


def refuse_unread_keys(part: object, chooser: str, reads: Mapping[str, Collection[str]]) -> None:
    """Refuse a key that has no effect.

    It differs from its default, and the value of the key `chooser` leaves it unread.

    Args:
        part: a configuration.
        chooser: the key that decides what is read.
        reads: for each value of `chooser`, the keys that it reads; keys that no value lists are
            always read.

    Raises:
        ValueError: the first unread key, the values that read it, and what to do.
    """
    chosen = getattr(part, chooser)
    changed = non_default_keys(part)
    for key in sorted(changed):
        readers = [value for value, keys in reads.items() if key in keys]
        if readers and chosen not in readers:
            raise ValueError(
                f"{key}: has no effect with {chooser} '{chosen}': remove the key, or set {chooser} "
                f"to {' or '.join(readers)}"
            )
