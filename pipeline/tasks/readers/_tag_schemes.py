"""Tagging schemes of named entities and conversions between them.

| scheme | first word | inner words | last word | a single word | a neighbor of the same type |
|---|---|---|---|---|---|
| IOB1 (CoNLL-2003's files) | I | I | I | I | begins with B |
| IOB2, also called BIO | B | I | I | B | begins with B |
| BIOES | B | I | E | S | begins with B or S |
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Literal, TypeAlias

Scheme: TypeAlias = Literal["bio", "bioes"]
_OUTSIDE: Final = "O"
_BEGINS: Final = frozenset("BS")
_MARKS: Final = frozenset("BIES")
_MARKS_OF: Final[dict[Scheme, str]] = {"bio": "BI", "bioes": "BIES"}


def scheme_labels(entities: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """Return the tags of a scheme: `O`, then those of each entity type."""
    return (_OUTSIDE, *(f"{mark}-{entity}" for entity in entities for mark in _MARKS_OF[scheme]))


def are_entities(tags: Sequence[str]) -> bool:
    """Return whether tags are `O`, and B, I, E or S with an entity type.

    Example:
        >>> are_entities(["O", "B-PER"]), are_entities(["NOUN", "O"])
        (True, False)
    """
    typed = [tag.partition("-") for tag in tags if tag != _OUTSIDE]
    has_types = all(mark in _MARKS and entity for mark, _, entity in typed)
    return len(typed) < len(tags) and bool(typed) and has_types


def to_bio(tags: Sequence[str]) -> list[str]:
    """Convert tags of IOB1, IOB2 or BIOES to IOB2; an I tag that does not continue an entity starts one.

    Raises:
        ValueError: a tag is neither `O` nor B, I, E or S with an entity type.

    Example:
        >>> to_bio(["I-LOC", "I-LOC", "B-LOC", "I-PER"]), to_bio(["S-LOC", "O", "B-PER", "E-PER"])
        (['B-LOC', 'I-LOC', 'B-LOC', 'B-PER'], ['B-LOC', 'O', 'B-PER', 'I-PER'])
    """
    converted, open_type = [], ""
    for tag in tags:
        mark, dash, entity = tag.partition("-")
        if tag == _OUTSIDE:
            converted.append(tag)
            open_type = ""
            continue
        if not dash or not entity or mark not in _MARKS:
            raise ValueError(f"tag {tag!r}: expected O, or B, I, E or S with a type, such as B-PER")
        converted.append(f"{'B' if mark in _BEGINS or entity != open_type else 'I'}-{entity}")
        open_type = "" if mark in "ES" else entity
    return converted


def to_bioes(tags: Sequence[str]) -> list[str]:
    """Convert tags of IOB2 to BIOES.

    Example:
        >>> to_bioes(["B-LOC", "I-LOC", "B-LOC", "O"])
        ['B-LOC', 'E-LOC', 'S-LOC', 'O']
    """
    converted = []
    for tag, following in pairwise([*tags, _OUTSIDE]):
        ends = not following.startswith("I-")
        mark = {"B": "S", "I": "E"}.get(tag[0], tag[0]) if ends else tag[0]
        converted.append(mark + tag[1:])
    return converted
