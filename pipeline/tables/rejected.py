"""Rows that cannot be read, each with its reason and its texts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

_Item = TypeVar("_Item")
_NOT_UTF8: Final = (
    "it is not UTF-8; convert the file, such as one of Excel by: "
    "iconv -f windows-1252 -t utf-8 FILE > NEW_FILE"
)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that cannot be used."""

    reason: str
    """`fields`, `bad_utf8`, ..."""
    index: int
    detail: str = field(default="", compare=False)
    """content of the row and how to correct it; empty if the reason is enough"""
    texts: tuple[str, ...] = field(default=(), compare=False)
    """texts of the row, which documents may contain although it is not used"""

    def __post_init__(self) -> None:
        if self.reason == "bad_utf8":
            object.__setattr__(self, "detail", _NOT_UTF8)

    @property
    def explanation(self) -> str:
        """The fault of the row, for a message."""
        return self.detail or self.reason.replace("_", " ")


def attach_texts(item: _Item | Rejected, row: Any) -> _Item | Rejected:
    """Return an item of a row; add the texts of the row to a rejected one.

    A search for rows in documents reads these texts.
    """
    if not isinstance(item, Rejected) or item.texts:
        return item
    return replace(item, texts=tuple(text for text in iterate_strings(row) if text.strip()))


def iterate_strings(value: Any) -> Iterator[str]:
    """Yield the strings in a field, including nested lists and objects; numbers are skipped."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from iterate_strings(part)
