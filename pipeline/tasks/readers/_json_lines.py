"""Read JSON lines and the texts of their fields."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from clozeline.errors import ConfigurationError
from clozeline.files import parse_json
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers._task_items import Rejected, keep_texts
from clozeline.pipeline.tasks.readers._text_lines import text_lines

Object: TypeAlias = Mapping[str, Any]


def json_objects(path: Path, limits: Limits) -> Iterator[tuple[int, Object | Rejected]]:
    """Yield the index and the object of each line; any other line is rejected as `fields`."""
    for index, line in text_lines(path, limits):
        if isinstance(line, Rejected):
            yield index, line
        elif not line.strip():
            yield index, Rejected("blank_line", index)
        else:
            try:
                row = parse_json(line)
            except ValueError as error:
                yield index, Rejected("fields", index, f"it is no JSON ({error})", (line,))
                continue
            rejected = keep_texts(Rejected("fields", index, "it is no JSON object"), row)
            yield index, row if isinstance(row, Mapping) else rejected


def require_fields(path: Path, limits: Limits, *names: str) -> Object:
    """Return the object of the first line of a file; ConfigurationError if it lacks one of the fields."""
    expected = f"JSON lines with the fields {' and '.join(names)}"
    first = first_object(path, limits, expected)
    if missing := [name for name in names if field_of(first, name) is None]:
        raise ConfigurationError(
            f"{path}: expected {expected}, got {', '.join(first) or 'none'} without {', '.join(missing)}"
        )
    return first


def first_object(path: Path, limits: Limits, expected: str) -> Object:
    """Return the object of the first line of a file; ConfigurationError, naming what is `expected`, otherwise."""
    _, first = next(json_objects(path, limits), (0, Rejected("empty_file", 0, "the file has no lines")))
    if isinstance(first, Rejected):
        raise ConfigurationError(
            f"{path}: line 1: expected {expected}, but {first.detail or first.reason.replace('_', ' ')}: fix or remove "
            "the line"
        )
    return first


def field_of(row: Object, path: str) -> Any:
    """Return the value at a dotted path such as `translation.en`; None if it is absent."""
    value: Any = row
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def texts_in(row: Object, path: str) -> tuple[str, ...]:
    """Return the text of a field, or the texts of a list; empty if it is absent or holds anything else."""
    value = field_of(row, path)
    texts = value if isinstance(value, list) else [value]
    return tuple(texts) if all(isinstance(text, str) for text in texts) else ()
