"""The index and the lookup against sets of runs; hashes only say where to look."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.arrays import UInt64
from clozeline.errors import IntegrityError
from clozeline.pipeline.kernels import ngram_index
from clozeline.pipeline.kernels.ngram_index import Item, Matcher, NgramIndex, build_index, open_index, write_index
from clozeline.recorded_file import RecordedFile
from tests.pipeline.decontaminate.contaminated_texts import prose, runs_of, words_of


def index_of(items: list[list[str]], ngram: int = 13) -> NgramIndex:
    return build_index(((0, Item(row, str(row), tuple(texts))) for row, texts in enumerate(items)), ngram)


def entries_of(items: list[list[str]], ngram: int) -> dict[str, set[int]]:
    """The items of each entry, by sets."""
    entries: dict[str, set[int]] = {}
    for number, item in enumerate(items):
        for words in map(words_of, item):
            for run in runs_of(words, ngram) or [tuple(words)] * (len(words) >= 5):
                entries.setdefault(" ".join(run), set()).add(number)
    return entries


LETTERS = st.lists(st.sampled_from("ab"), max_size=9).map(" ".join)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(LETTERS, max_size=3), max_size=8), st.lists(LETTERS, max_size=5), st.integers(5, 7))
def test_entries_items_and_matches_are_those_of_sets(items: list[list[str]], texts: list[str], ngram: int) -> None:
    index, expected = index_of(items, ngram), entries_of(items, ngram)
    found = {index.entry(entry): set(index.items_of(entry).tolist()) for entry in range(len(index))}
    assert found == expected
    assert len(index) == len(expected)
    matches = {(text, word, index.entry(entry)) for text, word, entry in Matcher(index).find(texts)}
    assert matches == {
        (number, start, " ".join(run))
        for number, text in enumerate(texts)
        for length in range(5, ngram + 1)
        for start, run in enumerate(runs_of(words_of(text), length))
        if " ".join(run) in expected
    }


@pytest.mark.parametrize("bits", [0, 3])
def test_equal_hashes_remove_nothing_and_hide_nothing(monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    """All hashes have the same value, or one of eight, so that only the words tell entries apart."""
    draw = random.Random(1)
    items = [[prose(draw, words)] for words in (13, 14, 20, 6, 6, 8, 12)]
    whole = ngram_index.ngram_hashes

    def few_hashes(words: UInt64, ngram: int) -> UInt64:
        return whole(words, ngram) % np.uint64(1 << bits)

    monkeypatch.setattr(ngram_index, "ngram_hashes", few_hashes)
    index = index_of(items)
    assert {index.entry(entry) for entry in range(len(index))} == entries_of(items, 13).keys()
    matcher = Matcher(index)
    others = [prose(draw, 60) for _ in range(5)]
    assert matcher.find(others) == []
    texts = [f"{text} {item[0]} {text}" for text, item in zip(others, items, strict=False)]
    found = [{index.entry(entry) for text, _, entry in matcher.find(texts) if text == number} for number in range(5)]
    assert found == [entries_of([item], 13).keys() for item in items[:5]]


def test_no_run_crosses_two_fields_or_two_documents() -> None:
    words = prose(random.Random(2), 13).split()
    index = index_of([[" ".join(words)]])
    assert Matcher(index).find([" ".join(words[:6]), " ".join(words[6:])]) == []
    index = index_of([[" ".join(words[:4]), " ".join(words[4:8])]])
    assert len(index) == 0
    assert Matcher(index).find([" ".join(words)]) == []


def test_words_of_items_and_words_inside_of_found_entries() -> None:
    """A field that two items share counts for both; overlapping entries cover each word once."""
    shared, other = (prose(random.Random(seed), 20).replace(",", "") for seed in (3, 4))
    index = index_of([[shared, "one two three"], [shared], [other, "one two three four five six"]])
    first = " ".join(words_of(shared)[2:15])
    chosen = np.array([index.entry(entry) in (first, "one two three four five six") for entry in range(len(index))])
    total, inside = index.covered(chosen)
    lengths = len(words_of(shared)), len(words_of(other))
    assert total.tolist() == [lengths[0] + 3, lengths[0], lengths[1] + 6]
    assert inside.tolist() == [13, 13, 6]
    assert index.covered(np.ones(len(index), dtype=bool))[1].tolist() == [lengths[0], lengths[0], lengths[1] + 6]


def test_an_index_comes_back_from_its_file(tmp_path: Path) -> None:
    items = [["Größe 漢字 und so weiter und so fort", "x"], ["αβγ δ ε ζ η θ"], []]
    index, path = index_of(items, 6), tmp_path / "index.arrow"
    write_index(path, index)
    again = open_index(RecordedFile(path))
    assert (again.ngram, bytes(again.words), again.item_names.to_pylist()) == (6, bytes(index.words), ["0", "1", "2"])
    for name in ("starts", "fields", "entries", "hashes", "sizes", "positions", "item_fields", "item_bounds",
                 "item_files", "item_rows"):  # fmt: skip
        assert np.array_equal(getattr(again, name), getattr(index, name))
        assert not getattr(again, name).flags.writeable
    assert [again.entry(entry) for entry in range(len(again))] == [index.entry(entry) for entry in range(len(index))]


@pytest.mark.parametrize("content", [b"", b"no index", b"ARROW1\0\0"])
def test_a_file_that_is_no_index_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "index.arrow"
    path.write_bytes(content)
    with pytest.raises(IntegrityError, match=r"index\.arrow: not an index of evaluation items"):
        open_index(RecordedFile(path, bytes=len(content)))


def test_an_index_of_another_match_form_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngram_index, "MATCH_VERSION", 99)
    write_index(tmp_path / "index.arrow", index_of([["one two three four five"]]))
    monkeypatch.undo()
    with pytest.raises(IntegrityError, match="match_version"):
        open_index(RecordedFile(tmp_path / "index.arrow"))
