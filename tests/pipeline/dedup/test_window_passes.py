"""Repeated runs of words against a search by sets of all windows."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np

from clozeline.pipeline.dedup import repeats
from tests.pipeline.decontaminate.contaminated_texts import VOCABULARY, words_of
from tests.pipeline.dedup.dedup_documents import document
from tests.pipeline.dedup.repeated_texts import copying_texts, is_subsequence, repeated_words, windows_of

WINDOWS = {"exact": None, "near": None, "windows": {}}


def left_by(result):
    return {row.uid: row.text for row in result.documents()}


def words(seed: int, count: int) -> str:
    draw = random.Random(seed)
    return " ".join(draw.choice(VOCABULARY) for _ in range(count))


def test_no_run_of_65_words_is_left_twice_and_no_unique_word_is_lost(run_dedup):
    rows = [document(n, text) for n, text in enumerate(copying_texts(1, 600))]
    result = run_dedup([rows[:250], [], rows[250:]], WINDOWS, shards=3)
    left, repeated = left_by(result), repeated_words(rows, 50)
    before = Counter(window for row in rows for window in windows_of(row.text, 65))
    # what a cut brings together was no run before
    pieces = [piece for text in left.values() for piece in text.split("\n\n")]
    after = Counter(window for piece in pieces for window in windows_of(piece, 65))
    assert max(before.values()) > 2
    assert max(after.values()) == 1
    for row in rows:
        original, kept = words_of(row.text), words_of(left.get(row.uid, ""))
        assert is_subsequence(kept, original)
        assert is_subsequence([word for n, word in enumerate(original) if n not in repeated[row.uid]], kept)
    assert result.counts["characters_in"] - sum(map(len, left.values())) == sum(
        result.counts["characters_removed"].values()
    )


def test_a_run_goes_to_its_last_word_and_the_first_copy_stays(run_dedup):
    run = words(1, 65)
    for before, after in ((0, 0), (3, 0), (0, 40), (90, 7)):
        rows = [document(n, f"{words(2 + n, before)} {run} {words(5 + n, after)}".strip()) for n in range(3)]
        rows.append(document(3, words(8, 20)))
        left = left_by(run_dedup([rows[1:], rows[:1]], WINDOWS, shards=2))
        first, *others = sorted(rows[:3], key=lambda row: row.uid)
        assert left[first.uid] == first.text
        for row in others:
            number = rows.index(row)
            parts = [part for part in (words(2 + number, before), words(5 + number, after)) if part]
            assert left.get(row.uid, "") == "\n\n".join(parts)


def test_49_words_stay_and_65_never_do(run_dedup):
    edited = Counter()
    for size in (49, 65):
        for seed in range(8):
            run = words(seed, size)
            rows = [document(n, f"{words(100 + n, 60)} {run} {words(200 + n, 60)}") for n in range(2)]
            edited[size] += run_dedup([rows], WINDOWS).counts.get("edited", 0)
    assert edited[49] == 0
    assert edited[65] == 8


def test_equal_hashes_of_other_words_remove_nothing(run_dedup, monkeypatch):
    monkeypatch.setattr(repeats, "ngram_hashes", lambda hashes, size: np.zeros(max(0, len(hashes) - size + 1), "u8"))
    rows = [document(n, words(n, 100)) for n in range(4)]
    result = run_dedup([rows], WINDOWS)
    assert left_by(result) == {row.uid: row.text for row in rows}
    assert result.counts["pieces"]["windows"]["repeated"] > 4


def test_tasks_and_orders_change_nothing(run_dedup):
    rows = [document(n, text) for n, text in enumerate(copying_texts(2, 120))]
    parts, config = [rows[:50], [], rows[50:]], {**WINDOWS, "lines": {}, "spans": {}}
    assert run_dedup(parts, config, shards=3).tree() == run_dedup(parts, config, shards=3, reverse=True).tree()
    shuffled = random.Random(1).sample(rows, len(rows))
    assert left_by(run_dedup([shuffled], config)) == left_by(run_dedup(parts, config, shards=4))
