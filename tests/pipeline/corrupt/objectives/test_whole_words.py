"""Objectives of whole words: kernels against plain loops, laws of spans, rows of one word, words
after newlines."""

from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np
import pytest

from clozeline.pipeline.rows import Ragged
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, masked, wide
from tests.pipeline.corruption_cases import FIRST_CONTENT, WORDS, one_sample, samples
from tests.pipeline.word_cases import leaders_of, masked_by_hand, slow_take, slow_words

IDS = np.arange(WORDS.size)
MARKED = replace(WORDS, word_end=(IDS % 3 == 0) & (IDS % 5 == 0) & ~WORDS.special)
"""Ids with remainder 0 open a word, and some of them end one as a newline does."""


def slow_thresholds(success, longest, shortest=1):
    weights = [success * (1 - success) ** (length - 1) for length in range(1, longest + 1)]
    weights[: shortest - 1] = [Fraction(0)] * (shortest - 1)
    return [
        floor(sum(weights[:length], Fraction(0)) / sum(weights) * 2**32)
        for length in range(longest)
    ]


def runs_of(places):
    """Start and length of each run of places."""
    spans = []

    for place in places:
        if spans and place == sum(spans[-1]):
            spans[-1][1] += 1
        else:
            spans.append([place, 1])

    return spans


def segment(rows):
    """Words as a segmenter finds them, in rows whose tokens differ from each other."""
    random = np.random.RandomState(3)
    places = WORDS.size - FIRST_CONTENT
    sizes = rows.columns["ids"].lengths
    ids = [FIRST_CONTENT + random.permutation(places)[:size] for size in sizes]
    starts = [np.flatnonzero(random.random_sample(size) < 0.3) for size in sizes]
    rows.columns["ids"] = Ragged.from_lists(ids, WORDS.id_dtype)
    rows.columns["word_starts"] = Ragged.from_lists(starts, np.uint16)


@pytest.mark.parametrize(("specials", "segmented"), [(0.0, False), (0.1, False), (0.0, True)])
@pytest.mark.parametrize(
    ("name", "rate", "unit"),
    [
        ("whole_word_masking", 0.15, "token"),
        ("whole_word_masking", 0.5, "word"),
        ("whole_word_masking", 0.8, "token"),
        ("span_boundary", 0.15, "span"),
        ("span_boundary", 0.5, "token"),
    ],
)
def test_equals_a_plain_loop(name, rate, unit, specials, segmented):
    """Word starts of the samples come before those of the pieces."""
    objective = wide(name, MARKED, role_unit=unit, mask_rate=rate)
    rows = samples([1 + (37 * row) % 90 for row in range(250)] + [510] * 5, specials=specials)
    if segmented:
        segment(rows)
    thresholds = slow_thresholds(Fraction(1, 5), 10) if name == "span_boundary" else (0,)

    for key, sample, example in keyed(objective, rows, variant=4, seed=6):
        ids = sample["ids"].tolist()
        row = slow_words(ids, MARKED, sample["word_starts"] if segmented else None)
        k = max(1, floor(Fraction(str(rate)) * sum(word.length for word in row) + Fraction(1, 2)))
        places = [1 + place for place in slow_take(key, row, k, thresholds)]

        assert len(places) == k

        spans = runs_of(places)
        # a label that starts a word or a run of labels leads the next ones
        starts = {1 + word.start for word in row} | {start for start, _ in spans}
        leads = [number for number, place in enumerate(places) if place in starts]
        sizes = {
            "word": np.diff([*leads, k]).tolist(),
            "span": [size for _, size in spans],
        }
        leaders = leaders_of(sizes[unit]) if unit in sizes else None

        assert masked(example) == masked_by_hand(key, [1, *ids, 2], places, MARKED, leaders)

        if name == "span_boundary":
            assert example["span_starts"].tolist() == [start for start, _ in spans]
            assert example["span_lengths"].tolist() == sizes["span"]


@pytest.mark.parametrize(("specials", "shortest"), [(0.0, 1), (0.1, 1), (0.0, 4), (0.1, 10)])
def test_spans_of_tokens_are_those_of_words_of_one_token(specials, shortest):
    options = {"mask_rate": 0.3, "predict_from": "previous", "min_span_length": shortest}
    objective = wide("span_boundary", MARKED, unit="token", **options)
    rows = samples([1 + (37 * row) % 90 for row in range(250)], specials=specials)
    thresholds = slow_thresholds(Fraction(1, 5), 10, shortest)
    alone = replace(MARKED, word_start=~MARKED.special, word_end=None)
    lengths = []

    for key, sample, example in keyed(objective, rows, variant=4, seed=6):
        ids = sample["ids"].tolist()
        row = slow_words(ids, alone)
        k = max(1, floor(Fraction(3, 10) * len(row) + Fraction(1, 2)))
        places = [1 + place for place in slow_take(key, row, k, thresholds)]

        assert example["label_positions"].tolist() == places
        lengths += [length for _, length in runs_of(places)]

    assert set(lengths) > {1, 2, 3}
    assert objective.predict_from == "previous"
    assert not objective.reads_words


def test_a_row_of_one_word_is_masked_by_its_tokens():
    """The only word is longer than the budget.

    No more of its tokens are labels than were asked for, any of them.
    """
    inside = WORDS.word_start.copy()
    inside[300:320] = False
    words = replace(WORDS, word_start=inside)
    rows = one_sample(list(range(300, 320)), [0], words, 400)

    for name in ("whole_word_masking", "span_boundary"):
        objective = wide(name, words)
        examples = corrupt(objective, rows, np.arange(400, dtype=np.uint16))
        labels = examples.columns["label_positions"]
        assert set(labels.lengths.tolist()) == {3}
        assert set(labels.values.tolist()) == set(range(1, 21))

    limited = corrupt(wide("whole_word_masking", max_labels=20), samples([510] * 20))

    assert limited.columns["label_ids"].lengths.max() == 20
