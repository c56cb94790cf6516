"""Lines of JSON, each an object, and the texts of their fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from clozeline.errors import ConfigurationError
from clozeline.files import parse_json
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers._task_items import Rejected
from clozeline.pipeline.tasks.readers._text_lines import LINE_REASONS, text_lines

Object: TypeAlias = Mapping[str, Any]


OBJECT_REASONS: Final = (*LINE_REASONS, "blank_line", "fields")
"""Reasons for which a line is no object, or lacks a field."""


def json_objects(path: Path, limits: Limits) -> Iterator[tuple[int, Object | Rejected]]:
    """Yield the number of each line with its object; a line that is anything else is refused as `fields`.

    Args:
        path: the file, plain or compressed.
        limits: bounds on lines and decompression.
    """
    for index, line in text_lines(path, limits):
        if isinstance(line, Rejected):
            yield index, line
        elif not line.strip():
            yield index, Rejected("blank_line", index)
        else:
            found = _object(line)
            yield index, Rejected("fields", index, found) if isinstance(found, str) else found


def require_fields(path: Path, limits: Limits, *names: str) -> Object:
    """Return the object of the first line of a file, which has some fields.

    Raises:
        ConfigurationError: it is not.
    """
    first = first_object(path, limits, f"JSON lines with the fields {' and '.join(names)}")
    if missing := [name for name in names if field_of(first, name) is None]:
        raise ConfigurationError(
            f"{path}: expected JSON lines with the fields {' and '.join(names)}, got {', '.join(first) or 'none'} "
            f"without {', '.join(missing)}"
        )
    return first


def first_object(path: Path, limits: Limits, expected: str) -> Object:
    """Return the object of the first line of a file.

    Args:
        path: the file, plain or compressed.
        limits: bounds on lines and decompression.
        expected: what the file should hold, for the message.

    Raises:
        ConfigurationError: there is none.
    """
    _, first = next(json_objects(path, limits), (0, Rejected("empty_file", 0, "the file has no lines")))
    if isinstance(first, Rejected):
        raise ConfigurationError(
            f"{path}: line 1: expected {expected}, but {first.detail or first.reason.replace('_', ' ')}: fix or remove "
            "the line"
        )
    return first


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


def _object(line: str) -> Object | str:
    """Return the object of a line, or why it is none."""
    try:
        found = parse_json(line)
    except ValueError as error:
        return f"it is no JSON ({error})"
    return found if isinstance(found, Mapping) else "it is no JSON object"
