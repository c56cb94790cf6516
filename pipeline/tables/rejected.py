"""Rows that cannot be read: each has a reason, and keeps its texts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that is not an example."""

    reason: str
    """`fields`, `bad_label`, ..."""
    index: int
    detail: str = field(default="", compare=False)
    """content of the row and what to do about it; empty if the reason says everything"""
    texts: tuple[str, ...] = field(default=(), compare=False)
    """texts of the row, which documents may hold although no task keeps it"""

    @property
    def explanation(self) -> str:
        """What is wrong with the row, for a message."""
        return self.detail or self.reason.replace("_", " ")


def attach_texts(item: T | Rejected, row: Any) -> T | Rejected:
    """Return an item of a row; a rejected one with the texts in the row's fields, by which `decontaminate` finds it."""
    if not isinstance(item, Rejected) or item.texts:
        return item
    return replace(item, texts=tuple(text for text in iterate_strings(row) if text.strip()))


def iterate_strings(value: Any) -> Iterator[str]:
    """Yield the strings in a field, including nested lists and objects; numbers are no texts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from iterate_strings(part)
