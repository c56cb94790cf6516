"""Sentence order prediction: two segments in order or swapped, never a foreign one, under masked n-grams."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest

from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.kernels.distributions import reciprocal_thresholds
from clozeline.pipeline.rows import Example
from clozeline.seeding import LABELS, random_bits
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, masked, reasons, wide
from tests.pipeline.corruption_cases import SEP, WORDS, samples
from tests.pipeline.laws import within_sigmas
from tests.pipeline.pair_cases import frame, slow_masks, unmasked, window
from tests.pipeline.word_cases import masked_by_hand, slow_take, slow_words

RAIN, UMBRELLA = [200, 201, 202, 203], [204, 205, 206, 207, 208]


@pytest.mark.parametrize("longest", [0, 1, 3])
@pytest.mark.parametrize("specials", [0.0, 0.1])
def test_equals_a_plain_loop(longest: int, specials: float) -> None:
    objective = wide("sentence_order_prediction", max_span_length=longest)
    rows = samples([2 + (37 * row) % 90 for row in range(300)], specials=specials, sentences=5)
    for key, sample, example in keyed(objective, rows, variant=4, seed=6):
        ids, starts = sample["ids"].tolist(), sample["sentence_starts"].tolist()
        word, choice = random_bits(np.array([key]), LABELS, 2)[0].tolist()
        cut = starts[1 + (((choice >> 32) * (len(starts) - 1)) >> 32)]
        sides = (ids[:cut], ids[cut:])[:: -1 if word >> 63 else 1]
        wanted = frame(*sides)
        by_hand = slow_spans(wanted, key, longest) if longest else slow_masks(wanted, key, 150_000, WORDS)
        assert masked(example) == by_hand
        assert example["segment_starts"].tolist() == [0, len(sides[0]) + 2]
        assert example["sentence_label"].tolist() == [word >> 63]


def slow_spans(row: list[int], key: np.uint64, longest: int) -> tuple[list[int], list[int], list[int]]:
    found = slow_words(row, WORDS)
    k = max(1, floor(Fraction(sum(word.length for word in found) * 15, 100) + Fraction(1, 2)))
    taken = slow_take(key, found, k, reciprocal_thresholds(longest).tolist())
    positions = sorted(found[word].start + token for word in taken for token in range(found[word].length))
    return masked_by_hand(key, row, positions, WORDS)


def test_labels_are_balanced() -> None:
    examples = corrupt(wide("sentence_order_prediction"), samples([30] * 10_000, sentences=4))
    assert within_sigmas(int(examples.columns["sentence_label"].values.sum()), 10_000, 0.5)


def test_swapped_back_the_window_is_whole() -> None:
    objective = wide("sentence_order_prediction")
    rows = samples([2, 5, 17, 64] * 50, sentences=4)
    for sample, example in zip(rows, corrupt(objective, rows), strict=True):
        first, second = objective.segments_of(objective.uncorrupt(example), _uncut(example))  # type: ignore[attr-defined]
        assert [*first, *second] == sample["ids"].tolist()


def _uncut(example: Example) -> Example:
    """The example's second segment starts where it does when the segments are in order."""
    if not example["sentence_label"][0]:
        return example
    second = len(example["input_ids"]) - int(example["segment_starts"][1]) + 1
    return Example(example.fixed, {**example.columns, "segment_starts": np.array([0, second])})


def test_worked_example() -> None:
    objective = build_objective("sentence_order_prediction", WORDS)
    examples = corrupt(objective, window([RAIN, UMBRELLA], WORDS, 60), np.arange(60))
    found = {(int(example["sentence_label"][0]), tuple(unmasked(example))) for example in examples}
    assert found == {(0, tuple(frame(RAIN, UMBRELLA))), (1, tuple(frame(UMBRELLA, RAIN)))}


def test_spans_are_words_of_one_segment() -> None:
    """A word start every third id: the labels are whole words, and no span crosses [SEP]."""
    examples = corrupt(wide("sentence_order_prediction"), samples([60] * 300, sentences=4))
    for example in examples:
        row, labels = unmasked(example), set(example["label_positions"].tolist())
        for place in labels:
            after = row[place + 1] if place + 1 < len(row) else None
            joined = after is not None and not WORDS.special[after] and not WORDS.word_start[after]
            assert not joined or place + 1 in labels or len(labels) == 1
        assert not any(WORDS.special[row[place]] for place in labels)


def test_a_window_cut_elsewhere_is_an_error() -> None:
    objective = build_objective("sentence_order_prediction", WORDS)
    rows = window([RAIN, UMBRELLA], WORDS)
    example = corrupt(objective, rows).row(0)
    other = window([RAIN[:3], RAIN[3:] + UMBRELLA], WORDS).row(0)
    with pytest.raises(ValueError, match="window is cut at 4"):
        objective.original(other, example)


def test_reasons_and_grouping() -> None:
    objective = build_objective("sentence_order_prediction", WORDS)
    assert reasons(objective, window([[SEP], [SEP]], WORDS)) == ["no_maskable"]
    assert objective.grouping.label == "sentence_pair-509-none-partner=False-short_rate=0.1"
