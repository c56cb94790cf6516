"""Objectives of whole words: kernels against plain loops, laws of spans, rows of one word, words after newlines."""

from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np
import pytest

from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, masked, wide
from tests.pipeline.corruption_cases import WORDS, one_sample, samples
from tests.pipeline.word_cases import leaders_of, masked_by_hand, slow_take, slow_words

IDS = np.arange(WORDS.size)
MARKED = replace(WORDS, word_end=(IDS % 3 == 0) & (IDS % 5 == 0) & ~WORDS.special)
"""Ids with remainder 0 open a word, and some of them end one as a newline does."""


def slow_thresholds(success, longest):
    weights = [success * (1 - success) ** (length - 1) for length in range(1, longest + 1)]
    return [floor(sum(weights[:length], Fraction(0)) / sum(weights) * 2**32) for length in range(longest)]


def runs_of(places):
    """Start and length of each run of places."""
    spans = []
    for place in places:
        if spans and place == sum(spans[-1]):
            spans[-1][1] += 1
        else:
            spans.append([place, 1])
    return spans


@pytest.mark.parametrize("specials", [0.0, 0.1])
@pytest.mark.parametrize(("name", "rate", "unit"), [
    ("whole_word_masking", 0.15, "token"), ("whole_word_masking", 0.5, "word"), ("whole_word_masking", 0.8, "token"),
    ("span_boundary", 0.15, "span"), ("span_boundary", 0.5, "token"),
])  # fmt: skip
def test_equals_a_plain_loop(name, rate, unit, specials):
    objective = wide(name, MARKED, role_unit=unit, mask_rate=rate)
    rows = samples([1 + (37 * row) % 90 for row in range(250)] + [510] * 5, specials=specials)
    thresholds = slow_thresholds(Fraction(1, 5), 10) if name == "span_boundary" else (0,)
    for key, sample, example in keyed(objective, rows, variant=4, seed=6):
        ids = sample["ids"].tolist()
        row = slow_words(ids, MARKED)
        k = max(1, floor(Fraction(str(rate)) * sum(word.length for word in row) + Fraction(1, 2)))
        taken = sorted(slow_take(key, row, k, thresholds))
        places = [1 + row[word].start + token for word in taken for token in range(row[word].length)]
        spans = runs_of(places)
        sizes = {"word": [row[word].length for word in taken], "span": [size for _, size in spans]}
        leaders = leaders_of(sizes[unit]) if unit in sizes else None
        assert masked(example) == masked_by_hand(key, [1, *ids, 2], places, MARKED, leaders)
        if name == "span_boundary":
            assert example["span_starts"].tolist() == [start for start, _ in spans]
            assert example["span_lengths"].tolist() == sizes["span"]


def test_a_row_of_one_word_is_masked_completely_and_counted():
    """The only word is longer than the budget. Where most tokens are asked for, nothing is counted."""
    inside = WORDS.word_start.copy()
    inside[300:304] = False
    words = replace(WORDS, word_start=inside)
    rows = one_sample([300, 301, 302, 303], [0], words, 200)
    for name, rate, size, counted in (
        ("whole_word_masking", 0.15, 4, {"overmasked": 200}),
        ("whole_word_masking", 0.5, 4, {"overmasked": 200}),
        ("whole_word_masking", 0.9, 4, {}),
        ("masked_lm", 0.5, 2, {}),  # half of the row is as many as were asked for
    ):
        objective = wide(name, words, mask_rate=rate)
        examples = corrupt(objective, rows, np.arange(200, dtype=np.uint16))
        assert set(examples.columns["label_positions"].lengths.tolist()) == {size}
        assert objective.tally(examples) == counted
    limited = corrupt(wide("whole_word_masking", max_labels=20), samples([510] * 20))
    assert limited.columns["label_ids"].lengths.max() == 20
