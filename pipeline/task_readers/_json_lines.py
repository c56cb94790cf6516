"""Lines of JSON, each an object, and the texts of their fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from pipeline.errors import ConfigurationError
from pipeline.files import parse_json
from pipeline.formats.limits import Limits
from pipeline.task_readers._items import Refused
from pipeline.task_readers._lines import LINE_REASONS, text_lines

__all__ = ["OBJECT_REASONS", "LinesLayout", "Object", "field_of", "json_objects", "require_fields", "texts_in"]

Object: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class LinesLayout:
    """The one layout of lines of JSON whose fields are named by options."""

    name: str = "JSON lines"
    labelled: bool = True


OBJECT_REASONS: Final = (*LINE_REASONS, "blank_line", "fields")
"""Reasons for which a line is no object, or lacks a field."""


def json_objects(path: Path, limits: Limits) -> Iterator[tuple[int, Object | Refused]]:
    """Yield the number of each line with its object; a line that is anything else is refused as `fields`.

    Args:
        path: the file, plain or compressed.
        limits: bounds on lines and decompression.
    """
    for place, line in text_lines(path, limits):
        if isinstance(line, Refused):
            yield place, line
        elif not line.strip():
            yield place, Refused("blank_line", place)
        else:
            found = _object(line)
            yield place, Refused("fields", place) if found is None else found


def require_fields(path: Path, limits: Limits, *names: str) -> None:
    """Check that the first line of a file is an object with some fields.

    Raises:
        ConfigurationError: it is not.
    """
    _, first = next(json_objects(path, limits), (0, Refused("empty file", 0)))
    have = {} if isinstance(first, Refused) else first
    if missing := [name for name in names if field_of(have, name) is None]:
        raise ConfigurationError(
            f"{path}: expected JSON lines with the fields {' and '.join(names)}, got {', '.join(have) or 'none'} "
            f"without {', '.join(missing)}"
        )


def field_of(row: Object, path: str) -> Any:
    """Return a field, with dots between the names of nested ones; None where it is absent."""
    found: Any = row
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def texts_in(row: Object, path: str) -> tuple[str, ...]:
    """Return the text of a field, or those of a list; none where it is absent or holds anything else."""
    found = field_of(row, path)
    texts = found if isinstance(found, list) else [found]
    return tuple(texts) if all(isinstance(text, str) for text in texts) else ()


def _object(line: str) -> Object | None:
    try:
        found = parse_json(line)
    except ValueError:
        return None
    return found if isinstance(found, Mapping) else None
