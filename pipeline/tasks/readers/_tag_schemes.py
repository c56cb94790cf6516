"""Tagging schemes of named entities and conversions between them.

| scheme | first word | inner words | last word | a single word | a neighbor of the same type |
|---|---|---|---|---|---|
| IOB1 (CoNLL-2003's files) | I | I | I | I | begins with B |
| IOB2, also called BIO | B | I | I | B | begins with B |
| BIOES | B | I | E | S | begins with B or S |

BILOU (L ends, U is single), BMES (M is inner) and BMEWO (W is single) have other letters for the same, small ones too.
"""

import logging
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from clozeline.pipeline.tasks.readers._label_cells import sort_classes

Scheme: TypeAlias = Literal["bio", "bioes"]
_OUTSIDE: Final = "O"
_LOG: Final = logging.getLogger(__name__)
_RESEMBLES: Final = re.compile(r"[A-Za-z][-_/|:]\w+|\w+[-_/|:][A-Za-z]")
_BEGINS: Final = frozenset("BS")
_MARKS: Final = {mark: mark for mark in "BIES"} | {"L": "E", "U": "S", "M": "I", "W": "S"}
"""Letters of all schemes, and those of BIOES for them."""
_MARKS_OF: Final[dict[Scheme, str]] = {"bio": "BI", "bioes": "BIES"}


def scheme_labels(entities: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """Return the tags of a scheme: `O`, then those of each entity type."""
    return (_OUTSIDE, *(f"{mark}-{entity}" for entity in entities for mark in _MARKS_OF[scheme]))


def normalize(tag: str) -> str:
    """Return a tag with the letters of BIOES; unchanged if it is none.

    Example:
        >>> normalize("U-PER"), normalize("m-loc"), normalize("o"), normalize("NOUN")
        ('S-PER', 'I-loc', 'O', 'NOUN')
    """
    mark, _, entity = tag.partition("-")
    if tag == _OUTSIDE.lower():
        return _OUTSIDE
    return f"{_MARKS[mark.upper()]}-{entity}" if entity and mark.upper() in _MARKS else tag


def are_entities(tags: Sequence[str]) -> bool:
    """Return whether tags are `O`, and the letter of a scheme with an entity type.

    Example:
        >>> are_entities(["O", "B-PER"]), are_entities(["NOUN", "O"])
        (True, False)
    """
    typed = [tag for tag in map(normalize, tags) if tag != _OUTSIDE]
    has_types = all(tag[0] in _MARKS and tag[1:2] == "-" and tag[2:] for tag in typed)
    return len(typed) < len(tags) and bool(typed) and has_types


def word_classes(found: Sequence[str], column: str) -> list[str]:
    """Return the classes of words in order: the tags of a scheme if all are entities', else as they are written.

    Tags that only resemble those of entities, such as PER-B or B_PER, are named in a warning.
    """
    if are_entities(found):
        tags = [*map(normalize, found)]
        entities = sorted({tag[2:] for tag in tags if tag != _OUTSIDE})
        return list(scheme_labels(entities, "bioes" if any(tag[0] in "ES" for tag in tags) else "bio"))
    names = sort_classes(found)
    if len(found) > 1 and sum(bool(_RESEMBLES.fullmatch(tag)) for tag in found) == len(found) - 1:
        _LOG.warning(
            "tasks: the column %s holds %s: read as classes of words; tags of entities are O, and B or I with a type, "
            "such as B-PER", column, ", ".join(names[:10]),
        )  # fmt: skip
    return names


def to_bio(tags: Sequence[str]) -> list[str]:
    """Convert tags of any scheme to IOB2; an I tag that does not continue an entity starts one.

    Raises:
        ValueError: a tag is neither `O` nor the letter of a scheme with an entity type.

    Example:
        >>> to_bio(["I-LOC", "I-LOC", "B-LOC", "I-PER"]), to_bio(["S-LOC", "O", "B-PER", "E-PER"])
        (['B-LOC', 'I-LOC', 'B-LOC', 'B-PER'], ['B-LOC', 'O', 'B-PER', 'I-PER'])
    """
    converted, open_type = [], ""
    for tag in map(normalize, tags):
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
