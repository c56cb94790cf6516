"""Pieces of single texts: their hashes, and what is left without some of them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.dedup.repeats import Lines, Pieces, Spans
from clozeline.pipeline.text.normal_form import normalize

TEXT = "Ä first line.\n\n12 34\nA FIRST line!\nno. Second? Third one! * * *\na first line 7"


def lines(min_letters: int = 1) -> Lines:
    return Lines(1, False, "all", 1, min_letters)


def spans(sentences: int) -> Spans:
    return Spans(None, True, "all", sentences)


def test_lines_are_compared_by_their_words_and_those_without_letters_stay():
    hashes, firsts = lines().hashes(TEXT, "en")
    assert firsts.tolist() == [0, 3, 4, 5]
    assert hashes[0] == hashes[1]
    assert len(set(hashes.tolist())) == 3
    assert lines(min_letters=11).hashes(TEXT, "en")[1].tolist() == [4]


def test_spans_are_compared_sentence_by_sentence():
    texts = ["One. Two. Three.", "ONE! two? “Three”…", "One two. Three.", "One. Two. Four.", "One. Two three."]
    keys = [spans(2).hashes(text, "en")[0].tolist() for text in texts]
    assert keys[0] == keys[1]
    assert len(keys[0]) == 2
    assert keys[3][0] == keys[0][0]
    assert len({*keys[0], *keys[2], *keys[3], *keys[4]}) == 5
    assert spans(4).hashes(texts[0], "en")[0].tolist() == []
    assert spans(2).hashes("?! … ?!\n\n* * *", "en")[1].tolist() == []


@pytest.mark.parametrize("pieces", [lines(), spans(1)])
@given(text=st.text("ab. !\n\u0301é漢。", max_size=40).map(normalize), draw=st.randoms(use_true_random=False))
def test_cut_leaves_the_other_units(pieces: Pieces, text, draw):
    starts = [*pieces.starts(text, "und"), len(text)]
    head = text[: starts[0]]
    units = [text[first:last] for first, last in pairwise(starts)]
    assert head + "".join(units) == text
    runs = [sorted((draw.randrange(len(units) + 1), draw.randrange(len(units) + 1))) for _ in range(3)] if units else []
    runs = [(first, last) for first, last in runs if first < last]
    if not runs:
        return
    removed = {unit for first, last in runs for unit in range(first, last)}
    groups = [head]
    for number, unit in enumerate(units):
        if number not in removed:
            groups[-1] += unit
        elif number - 1 not in removed:
            groups.append("")
    assert pieces.cut(text, "und", runs) == normalize(pieces.JOINT.join(groups))
