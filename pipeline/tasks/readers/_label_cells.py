"""Labels as cells of a table: names, integers, lists, and the classes that a file holds."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

MOST_CLASSES: Final = 65_535
"""Labels are stored as uint16."""
_INTEGER_DIGITS: Final = 18


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


def cell_texts(value: Any, separator: str | None) -> list[str] | None:
    """Return the labels of a list, or of a text that joins them; None for a missing value.

    Example:
        >>> cell_texts(["joy", "love"], ","), cell_texts("joy, love", ","), cell_texts("", ","), cell_texts(None, ",")
        (['joy', 'love'], ['joy', 'love'], [], None)
    """
    if value is None:
        return None
    if isinstance(value, str):
        parts: Iterable[Any] = value.split(separator)
    else:
        parts = value if isinstance(value, (list, tuple)) else [value]
    return [text for part in parts if (text := cell_text(part)) is not None]


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
