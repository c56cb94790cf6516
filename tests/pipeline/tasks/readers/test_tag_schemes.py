"""The three schemes from lists of entities, written apart; and seqeval's reading of each."""

from __future__ import annotations

import random
from typing import Any

import pytest
from seqeval.scheme import IOB1, IOB2, IOBES, Entities

from clozeline.pipeline.tasks.readers._labels import bio_labels, to_bio

KINDS = ("PER", "LOC")


def drawn(seed: int) -> list[tuple[int, str]]:
    """Lengths and types of consecutive parts of a sentence; the type of words outside is O."""
    draw = random.Random(seed)
    return [(draw.randint(1, 3), draw.choice((*KINDS, "O"))) for _ in range(draw.randint(1, 6))]


def tags(parts: list[tuple[int, str]], scheme: str) -> list[str]:
    found: list[str] = []
    before = "O"
    for length, kind in parts:
        if kind == "O":
            found += ["O"] * length
        elif scheme == "bioes":
            found += [f"S-{kind}"] if length == 1 else [f"B-{kind}", *[f"I-{kind}"] * (length - 2), f"E-{kind}"]
        else:
            begins = "B" if scheme == "iob2" or before == kind else "I"
            found += [f"{begins}-{kind}", *[f"I-{kind}"] * (length - 1)]
        before = kind
    return found


@pytest.mark.parametrize("seed", range(60))
def test_every_scheme_becomes_iob2(seed: int) -> None:
    parts = drawn(seed)
    iob1, iob2, bioes = (tags(parts, scheme) for scheme in ("iob1", "iob2", "bioes"))
    assert to_bio(iob1) == to_bio(iob2) == to_bio(bioes) == iob2


@pytest.mark.parametrize("seed", range(20))
def test_entities_stay_those_that_seqeval_reads(seed: int) -> None:
    def entities(found: list[str], scheme: Any) -> list[Any]:
        return [(one.start, one.end, one.tag) for one in Entities([found], scheme=scheme).entities[0]]

    iob1 = tags(drawn(seed), "iob1")
    found = to_bio(iob1)
    assert entities(found, IOB2) == entities(iob1, IOB1)
    bioes = tags(drawn(seed), "bioes")
    assert entities(found, IOB2) == entities(bioes, IOBES)


@pytest.mark.parametrize("tag", ["PER", "B-", "X-PER", "", "-PER"])
def test_other_tags_are_refused(tag: str) -> None:
    with pytest.raises(ValueError, match="expected O, or B, I, E or S with a type"):
        to_bio(["O", tag])


def test_labels_of_entities() -> None:
    assert bio_labels(["A", "B"]) == ("O", "B-A", "I-A", "B-B", "I-B")
