"""Schemes in which tags of words say where entities begin and end, and the ways between them.

| scheme | first word | inner words | last word | a single word | a neighbour of the same type |
|---|---|---|---|---|---|
| IOB1 (CoNLL-2003's files) | I | I | I | I | begins with B |
| IOB2, also called BIO | B | I | I | B | begins with B |
| BIOES | B | I | E | S | begins with B or S |
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Literal, TypeAlias

Scheme: TypeAlias = Literal["bio", "bioes"]
_OUTSIDE: Final = "O"
_BEGINS: Final = frozenset("BS")
_MARKS: Final = frozenset("BIES")
_MARKS_OF: Final[dict[Scheme, str]] = {"bio": "BI", "bioes": "BIES"}


def scheme_labels(entities: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """Return the tags of some types of entities: `O`, then those of each type."""
    return (_OUTSIDE, *(f"{mark}-{entity}" for entity in entities for mark in _MARKS_OF[scheme]))


def to_bio(tags: Sequence[str]) -> list[str]:
    """Return the tags of IOB1, IOB2 or BIOES in IOB2: an inner word that follows no word of its type begins one.

    Raises:
        ValueError: a tag is neither `O` nor B, I, E or S with a type.

    Example:
        >>> to_bio(["I-LOC", "I-LOC", "B-LOC", "I-PER"]), to_bio(["S-LOC", "O", "B-PER", "E-PER"])
        (['B-LOC', 'I-LOC', 'B-LOC', 'B-PER'], ['B-LOC', 'O', 'B-PER', 'I-PER'])
    """
    found, open_type = [], ""
    for tag in tags:
        mark, dash, kind = tag.partition("-")
        if tag == _OUTSIDE:
            found.append(tag)
            open_type = ""
            continue
        if not dash or not kind or mark not in _MARKS:
            raise ValueError(f"tag {tag!r}: expected O, or B, I, E or S with a type, such as B-PER")
        found.append(f"{'B' if mark in _BEGINS or kind != open_type else 'I'}-{kind}")
        open_type = "" if mark in "ES" else kind
    return found


def to_bioes(tags: Sequence[str]) -> list[str]:
    """Return tags of IOB2 in BIOES.

    Example:
        >>> to_bioes(["B-LOC", "I-LOC", "B-LOC", "O"])
        ['B-LOC', 'E-LOC', 'S-LOC', 'O']
    """
    found = []
    for tag, following in pairwise([*tags, _OUTSIDE]):
        ends = not following.startswith("I-")
        mark = {"B": "S", "I": "E"}.get(tag[0], tag[0]) if ends else tag[0]
        found.append(mark + tag[1:])
    return found
