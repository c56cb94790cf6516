"""Cells of a table with a label or a split: names, integers, lists, and the classes that a file holds."""

import ast
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BeforeValidator

from clozeline.configuration.config import config_class
from clozeline.pipeline.tasks.readers._column_files import Row, value_at

MOST_CLASSES: Final = 65_535
"""Labels are stored as uint16."""
_INTEGER_DIGITS: Final = 18
_SPLITS: Final = {"training": "train", "validation": "dev", "valid": "dev", "val": "dev", "development": "dev"}
"""Other names of splits."""
_PRINTED: Final = re.compile(r"\s*\[\s*(?:['\"]|-?\d|\])")
_NO_COMMA: Final = re.compile(r"""(?:'\s+'|"\s+")(?=[^,\]])""")


def cell_text(value: Any) -> str | None:
    """Return a label as text, None for a missing one; integers may come as floats, as from a column with gaps.

    Raises:
        ValueError: the value is a list or an object.

    Example:
        >>> cell_text(" world "), cell_text(2.0), cell_text(True), cell_text("")
        ('world', '2', 'True', None)
    """
    if isinstance(value, (list, tuple, Mapping)):
        raise ValueError(f"holds {str(value)[:60]}, where one label is expected")  # noqa: TRY004 (a value of the file)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip() or None


def printed_list(text: str) -> list[Any] | None:
    """Return the list that a program has printed into a text, as JSON or Python; None if the text is not like one.

    Raises:
        ValueError: it is cut, or has no commas, as numpy prints arrays.

    Example:
        >>> printed_list("['joy', 'fear']"), printed_list("joy, fear")
        (['joy', 'fear'], None)
    """
    if not _PRINTED.match(text):
        return None
    for parse in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            # Python joins neighboring strings: 'a' 'b' is one
            if isinstance(value := parse(text.strip()), list) and not _NO_COMMA.search(text):
                return value
    raise ValueError(f"holds {text[:60]}, which is neither a list of JSON nor of Python")


def cell_texts(value: Any, separator: str | None) -> list[str] | None:
    """Return the labels of a list, of a text that joins them, or of a printed list; None for a missing value.

    Raises:
        ValueError: a printed list cannot be read, or a label is a list or an object.

    Example:
        >>> cell_texts(["joy", "love"], ","), cell_texts("joy, love", ","), cell_texts("", ","), cell_texts(None, ",")
        (['joy', 'love'], ['joy', 'love'], [], None)
    """
    if value is None:
        return None
    if isinstance(value, str):
        printed = printed_list(value)
        parts: Iterable[Any] = value.split(separator) if printed is None else printed
    else:
        parts = value if isinstance(value, (list, tuple)) else [value]
    return [text for part in parts if (text := cell_text(part)) is not None]


def is_vector(labels: Sequence[str]) -> bool:
    """Return whether labels are a number for each class, 1 where the row has it, and not the numbers of classes.

    Example:
        >>> is_vector(["1", "0", "1"]), is_vector(["0", "2"]), is_vector(["0", "1"])
        (True, False, False)
    """
    return set(labels) <= {"0", "1"} and len(set(labels)) < len(labels)


def number_of(value: Any) -> float | None:
    """Return the finite number in a cell; None if it holds none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def is_integer(text: str) -> bool:
    """Return whether a label is written as an integer."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= _INTEGER_DIGITS


def sort_classes(names: Iterable[str]) -> list[str]:
    """Return class names in a fixed order: integers by value, other names by their characters.

    Example:
        >>> sort_classes(["10", "9"]), sort_classes(["b", "10", "9"])
        (['9', '10'], ['10', '9', 'b'])
    """
    found = set(names)
    return sorted(found, key=lambda name: (int(name), name)) if all(map(is_integer, found)) else sorted(found)


def are_numbers(names: Sequence[str]) -> bool:
    """Return whether labels are numbers of which some are no integers, so that they are no classes."""
    return all(number_of(name) is not None for name in names) and not all(map(is_integer, names))


def class_indices(classes: Sequence[str] | Mapping[str, str]) -> dict[str, int]:
    """Return the class index of each way to write a label: by name, or by index from 0 unless names are integers.

    A mapping names each value of the file; several values may have one name.

    Example:
        >>> class_indices(["no", "yes"]), class_indices({"1": "World", "2": "Sports"})
        ({'no': 0, 'yes': 1, '0': 0, '1': 1}, {'1': 0, '2': 1})
    """
    names = class_names(classes)
    if isinstance(classes, Mapping):
        return {value: names.index(name) for value, name in classes.items()}
    by_name = {name: index for index, name in enumerate(names)}
    if any(map(is_integer, names)):
        return by_name
    return by_name | {str(index): index for index in range(len(names))}


def class_names(classes: Sequence[str] | Mapping[str, str]) -> tuple[str, ...]:
    """Return the class names in order."""
    return tuple(dict.fromkeys(classes.values() if isinstance(classes, Mapping) else classes))


def as_texts(value: Any) -> Any:
    """Return names and values of classes as texts, before validation: YAML reads `1` as an integer."""
    if isinstance(value, Mapping):
        return {str(key): str(name) for key, name in value.items()}
    return [str(name) for name in value] if isinstance(value, (list, tuple)) else value


ClassNames: TypeAlias = Annotated[list[str], BeforeValidator(as_texts)]


@config_class
class SplitColumn:
    """A column that says to which split a row belongs."""

    column: str
    """column of the split; values are train, dev and test, or training, validation, valid, val, development"""
    names: Annotated[dict[str, str], BeforeValidator(as_texts)] = field(default_factory=dict)
    """splits by further values of the column: {"0": train, "1": dev}"""

    def split_of(self, row: Row) -> str | None:
        """Return the split of a row; None for a value that names none."""
        value = cell_text(value_at(row, self.column)) or ""
        known = self.names.get(value) or _SPLITS.get(value.lower(), value.lower())
        return known if known in ("train", "dev", "test") or known in self.names.values() else None
