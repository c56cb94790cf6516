"""The index and the lookup against sets of runs; hashes only say where to look."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.extensions.curation.decontaminate import ngram_index
from clozeline.extensions.curation.decontaminate.ngram_index import (
    Matcher,
    build_index,
    open_index,
    write_index,
)
from clozeline.recorded_file import RecordedFile
from tests.extensions.curation.decontaminate.contaminated_texts import prose, runs_of, words_of


def index_of(items, ngram=13):
    return build_index(((str(row), texts) for row, texts in enumerate(items)), ngram)


def found_in(matcher, texts):
    """The (text, word, run) of all matches."""
    runs = matcher.index.runs.to_pylist()
    return {
        (number, word, runs[entry])
        for number, text in enumerate(texts)
        for word, entry in matcher.find(text)
    }


def entries_of(items, ngram):
    """The items of each entry, by sets."""
    entries = {}

    for number, item in enumerate(items):
        for words in map(words_of, item):
            for run in runs_of(words, ngram) or [tuple(words)] * (len(words) >= 5):
                entries.setdefault(" ".join(run), set()).add(number)

    return entries


LETTERS = st.lists(st.sampled_from("ab"), max_size=9).map(" ".join)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(LETTERS, max_size=3), max_size=8),
    st.lists(LETTERS, max_size=5),
    st.integers(5, 7),
)
def test_entries_items_and_matches_are_those_of_sets(items, texts, ngram):
    index = index_of(items, ngram)
    expected = entries_of(items, ngram)

    assert index.runs.to_pylist() == list(expected)
    assert index.items.to_pylist() == [str(min(holders)) for holders in expected.values()]
    assert found_in(Matcher(index), texts) == {
        (number, start, " ".join(run))
        for number, text in enumerate(texts)
        for length in range(5, ngram + 1)
        for start, run in enumerate(runs_of(words_of(text), length))
        if " ".join(run) in expected
    }


@pytest.mark.parametrize("bits", [0, 3])
def test_equal_hashes_remove_nothing_and_hide_nothing(monkeypatch, bits):
    """All hashes have the same value, or one of eight, so that only the words tell entries
    apart."""
    draw = random.Random(1)
    items = [[prose(draw, words)] for words in (13, 14, 20, 6, 6, 8, 12)]
    whole = ngram_index.hash_ngrams

    def few_hashes(words, ngram):
        return whole(words, ngram) % np.uint64(1 << bits)

    monkeypatch.setattr(ngram_index, "hash_ngrams", few_hashes)
    index = index_of(items)

    assert index.runs.to_pylist() == list(entries_of(items, 13))

    matcher = Matcher(index)
    others = [prose(draw, 60) for _ in range(5)]

    assert found_in(matcher, others) == set()

    texts = [f"{text} {item[0]} {text}" for text, item in zip(others, items, strict=False)]
    found = [
        {run for text, _, run in found_in(matcher, texts) if text == number} for number in range(5)
    ]

    assert found == [entries_of([item], 13).keys() for item in items[:5]]


def test_an_index_comes_back_from_its_file(tmp_path):
    items = [["Größe 漢字 und so weiter und so fort", "x"], ["αβγ δ ε ζ η θ"], []]
    index = index_of(items, 6)
    path = tmp_path / "index.arrow"
    write_index(path, index)
    again = open_index(RecordedFile(path))

    assert (again.ngram, again.runs.to_pylist(), again.items.to_pylist()) == (
        6,
        index.runs.to_pylist(),
        ["0"] * 4 + ["1"],
    )
    assert again.words.tolist() == index.words.tolist()
    assert again.hashes.tolist() == index.hashes.tolist()
    assert not again.hashes.flags.writeable
