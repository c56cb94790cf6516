"""Parse labels as files write them: cells with one or several labels, classes, and entity tags.

| tagging scheme | first word | inner words | last word | a single word | a neighbor of the same
type | |---|---|---|---|---|---| | IOB1 (CoNLL-2003's files) | I | I | I | I | begins with B | |
IOB2, also called BIO | B | I | I | B | begins with B | | BIOES | B | I | E | S | begins with B or S
|

BILOU (L ends, U is single), BMES (M is inner) and BMEWO (W is single) use other letters for the
same roles; lower case works too.
"""

import ast
import json
import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Final, TypeAlias

from pydantic import BeforeValidator

from clozeline.extensions.tasks.readers._task_items import Unfit
from clozeline.pipeline.text.normal_form import compose

MOST_CLASSES: Final = 65_535
"""Limit of classes, because labels are stored as uint16."""
_LOG: Final = logging.getLogger(__name__)
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_PRINTED_LIST: Final = re.compile(r"\s*\[\s*(?:['\"]|-?\d|\])")
_MISSING_COMMA: Final = re.compile(r"""(?:'\s+'|"\s+")(?=[^,\]])""")
_OUTSIDE_TAG: Final = "O"
_GLYPH: Final = re.compile(
    "[^\\s\0-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
"""A character that a reader sees: no blank, control or mark of format, such as a soft hyphen."""
_BEGIN_MARKS: Final = frozenset("BS")
_BIOES_MARKS: Final = {mark: mark for mark in "BIES"} | {"L": "E", "U": "S", "M": "I", "W": "S"}
"""Letters of all schemes, and the BIOES letters with the same role."""


def cell_text(value: object) -> str | None:
    """Return a label as a string, None if it is missing; whole floats are written as integers.

    Raises:
        ValueError: the value is a list or an object.

    Example:
        >>> cell_text(" world "), cell_text(2.0), cell_text(True), cell_text("")
        ('world', '2', 'True', None)
    """
    if isinstance(value, (list, tuple, Mapping)):
        # ValueError, because the value comes from a file
        raise ValueError(f"holds {str(value)[:60]}, where one label is expected")  # noqa: TRY004
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip() or None


def parse_printed_list(text: str) -> list[object] | None:
    """Return the list in a string that a program printed as JSON or Python; None for other strings.

    Raises:
        ValueError: the list is cut off, or has no commas, as numpy prints arrays.

    Example:
        >>> parse_printed_list("['joy', 'fear']"), parse_printed_list("joy, fear")
        (['joy', 'fear'], None)
    """
    if not _PRINTED_LIST.match(text):
        return None
    for parse in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            # Python joins adjacent strings: 'a' 'b' is one
            if isinstance(value := parse(text.strip()), list) and not _MISSING_COMMA.search(text):
                return value
    raise ValueError(f"holds {text[:60]}, which is neither a JSON list nor a Python list")


def cell_texts(value: object, separator: str | None) -> list[str] | None:
    """Return the labels of a list, joined string or printed list; None for a missing value.

    Raises:
        ValueError: a printed list cannot be parsed, or a label is a list or an object.

    Example:
        >>> cell_texts(["joy", "love"], ","), cell_texts("joy, love", ",")
        (['joy', 'love'], ['joy', 'love'])
        >>> cell_texts("", ","), cell_texts(None, ",")
        ([], None)
    """
    if value is None:
        return None
    if isinstance(value, str):
        printed = parse_printed_list(value)
        parts: Iterable[object] = value.split(separator) if printed is None else printed
    else:
        parts = value if isinstance(value, (list, tuple)) else [value]
    return [text for part in parts if (text := cell_text(part)) is not None]


def words_of(value: object) -> tuple[str, ...]:
    """Return the words of a list, a printed list, or a string split at white space.

    Raises:
        Unfit: there are no words, or one is not a string or has no visible character.

    Example:
        >>> words_of(["in", "New York"]), words_of("in  Rome"), words_of("['in', 'New York']")
        (('in', 'New York'), ('in', 'Rome'), ('in', 'New York'))
    """
    with suppress(ValueError):
        value = (parse_printed_list(value) or value.split()) if isinstance(value, str) else value
    if value is None or value == []:
        raise Unfit("empty_text")
    if not isinstance(value, (list, tuple)) or not all(isinstance(word, str) for word in value):
        raise Unfit("fields")
    if not all(map(_GLYPH.search, value)):
        raise Unfit("empty_word")
    return tuple(value)


def is_vector(labels: Sequence[str]) -> bool:
    """Return whether labels are one 0 or 1 per class, rather than class numbers.

    Example:
        >>> is_vector(["1", "0", "1"]), is_vector(["0", "2"]), is_vector(["0", "1"])
        (True, False, False)
    """
    return set(labels) <= {"0", "1"} and len(set(labels)) < len(labels)


def number_of(value: object) -> float | None:
    """Return the finite number in a cell; None if there is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if not str(value).isascii() or "_" in str(value):  # which Python would read
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def is_integer(text: str) -> bool:
    """Return whether a label is written as an integer."""
    return _INTEGER.fullmatch(text) is not None


def sort_classes(names: Iterable[str]) -> list[str]:
    """Return class names in a fixed order: integers by value, other names by characters.

    Example:
        >>> sort_classes(["10", "9"]), sort_classes(["b", "10", "9"])
        (['9', '10'], ['10', '9', 'b'])
    """
    unique = set(names)
    if all(map(is_integer, unique)):
        return sorted(unique, key=lambda name: (int(name), name))
    return sorted(unique)


def are_numbers(names: Sequence[str]) -> bool:
    """Return whether labels are numbers, some of them fractions, so that they are not classes."""
    return all(number_of(name) is not None for name in names) and not all(map(is_integer, names))


def class_indices(classes: Sequence[str] | Mapping[str, str]) -> dict[str, int]:
    """Return the class index of each spelling of a label.

    Labels are names, or indices from 0 unless names are integers. A mapping gives the name of each
    value.

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


def number_classes(labels: Sequence[str], *, by_name: bool = True) -> dict[str, str]:
    """Return the class of each value of a column with class names, or with numbers from 0.

    Example:
        >>> number_classes(["no", "yes"])
        {'0': 'no', 'no': 'no', '1': 'yes', 'yes': 'yes'}
    """
    return {
        value: label
        for number, label in enumerate(labels)
        for value in ((str(number), label) if by_name else (str(number),))
    }


def class_names(classes: Sequence[str] | Mapping[str, str]) -> tuple[str, ...]:
    """Return the class names in order."""
    return tuple(dict.fromkeys(classes.values() if isinstance(classes, Mapping) else classes))


def as_texts(value: object) -> object:
    """Return class names and values as NFC strings, before validation; YAML reads integers."""
    if isinstance(value, Mapping):
        return {compose(str(key)): compose(str(name)) for key, name in value.items()}
    return [compose(str(name)) for name in value] if isinstance(value, (list, tuple)) else value


ClassNames: TypeAlias = Annotated[list[str], BeforeValidator(as_texts)]


def bio_labels(entities: Sequence[str]) -> tuple[str, ...]:
    """Return the tags for training: `O`, then `B` and `I` of each entity type."""
    return (_OUTSIDE_TAG, *(f"{mark}-{entity}" for entity in entities for mark in "BI"))


def normalize(tag: str) -> str:
    """Return a tag in BIOES letters; other labels are unchanged.

    Example:
        >>> normalize("U-PER"), normalize("m-loc"), normalize("o"), normalize("NOUN")
        ('S-PER', 'I-loc', 'O', 'NOUN')
    """
    mark, _, entity = tag.partition("-")
    if tag == _OUTSIDE_TAG.lower():
        return _OUTSIDE_TAG
    return (
        f"{_BIOES_MARKS[mark.upper()]}-{entity}" if entity and mark.upper() in _BIOES_MARKS else tag
    )


def are_entities(tags: Sequence[str]) -> bool:
    """Return whether tags are `O` and entity tags: the letter of a scheme with a type.

    Example:
        >>> are_entities(["O", "B-PER"]), are_entities(["NOUN", "O"])
        (True, False)
    """
    typed = [tag for tag in map(normalize, tags) if tag != _OUTSIDE_TAG]
    has_types = all(tag[0] in _BIOES_MARKS and tag[1:2] == "-" and tag[2:] for tag in typed)
    return len(typed) < len(tags) and bool(typed) and has_types


def word_classes(tags: Sequence[str], column: str) -> list[str]:
    """Return the classes of words in order; entity tags become IOB2.

    A warning names tags with an `O` that are no entity tags, such as PER, PER-B or B_PER.
    """
    if are_entities(tags):
        types = {tag[2:] for tag in map(normalize, tags) if tag != _OUTSIDE_TAG}
        return [*bio_labels(sorted(types))]

    names = sort_classes(tags)
    if _OUTSIDE_TAG in map(normalize, tags):
        _LOG.warning(
            "tasks: the column %s holds %s: read as classes of words; entity tags are O, and B or "
            "I with a type, such as B-PER",
            column,
            ", ".join(names[:10]),
        )

    return names


def bio_classes(names: Sequence[str]) -> Sequence[str] | dict[str, str]:
    """Return entity classes if they are IOB2, else the IOB2 class of each class and of its number.

    Example:
        >>> bio_classes(["O", "B-A", "I-A"]), bio_classes(["O", "S-A"])
        (['O', 'B-A', 'I-A'], {'0': 'O', 'O': 'O', '1': 'B-A', 'S-A': 'B-A'})
    """
    marks = {"E": "I", "S": "B"}
    converted = [marks.get(tag[0], tag[0]) + tag[1:] for tag in map(normalize, names)]
    if converted == [*names]:
        return names
    classes: dict[str, str] = {}
    for number, (name, tag) in enumerate(zip(names, converted, strict=True)):
        classes |= {str(number): tag, name: tag}
    return classes


def to_bio(tags: Sequence[str]) -> list[str]:
    """Convert tags of any scheme to IOB2; an I tag that does not continue an entity starts one.

    Raises:
        ValueError: a tag is neither `O` nor an entity tag.

    Example:
        >>> to_bio(["I-LOC", "I-LOC", "B-LOC", "I-PER"]), to_bio(["S-LOC", "O", "B-PER", "E-PER"])
        (['B-LOC', 'I-LOC', 'B-LOC', 'B-PER'], ['B-LOC', 'O', 'B-PER', 'I-PER'])
    """
    converted = []
    open_type = ""

    for tag in map(normalize, tags):
        mark, dash, entity = tag.partition("-")
        if tag == _OUTSIDE_TAG:
            converted.append(tag)
            open_type = ""
            continue
        if not dash or not entity or mark not in _BIOES_MARKS:
            raise ValueError(f"tag {tag!r}: expected O, or B, I, E or S with a type, such as B-PER")
        converted.append(f"{'B' if mark in _BEGIN_MARKS or entity != open_type else 'I'}-{entity}")
        open_type = "" if mark in "ES" else entity

    return converted
