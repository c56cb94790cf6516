"""Translation LM: exact counts over both sides, either side first, and the kernel against a plain loop."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np
import pytest

from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.rows import Example, Rows
from clozeline.seeding import LABELS, random_bits
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, masked, reachable, reasons, wide
from tests.pipeline.corruption_cases import MASK, SEP, WORDS, samples
from tests.pipeline.laws import chi_square_is_plausible, within_sigmas
from tests.pipeline.pair_cases import frame, slow_masks, window

CHINESE, ENGLISH = [200, 201, 202, 203, 204], [300, 301, 302, 303]


@pytest.mark.parametrize("specials", [0.0, 0.1])
def test_equals_a_plain_loop(specials: float) -> None:
    objective = wide("translation_lm")
    rows = samples([1 + (37 * row) % 90 for row in range(500)], specials=specials)
    for key, sample, example in keyed(objective, rows):
        sides = [(sample["ids"].tolist(), 0), (sample["target_ids"].tolist(), 1)]
        if int(random_bits(np.array([key]), LABELS, 1)[0, 0]) >> 63:
            sides.reverse()
        assert masked(example) == slow_masks(frame(sides[0][0], sides[1][0]), key, 150_000, WORDS)
        assert example["segment_starts"].tolist() == [0, len(sides[0][0]) + 2]
        assert example["languages"].tolist() == [language for _, language in sides]


def test_labels_by_frequency_equal_a_plain_loop() -> None:
    counted = replace(WORDS, token_counts=(np.arange(WORDS.size) * 7919 % 1009).astype(np.uint64))
    objective = wide("translation_lm", counted, frequency_exponent=0.5)
    for key, sample, example in keyed(objective, samples([1 + (37 * row) % 90 for row in range(100)], specials=0.1)):
        sides = [sample["ids"].tolist(), sample["target_ids"].tolist()]
        if int(random_bits(np.array([key]), LABELS, 1)[0, 0]) >> 63:
            sides.reverse()
        assert masked(example) == slow_masks(frame(*sides), key, 150_000, counted, exponent=0.5)


def test_labels_are_counted_over_both_sides() -> None:
    for sides in ((1, 1), (1, 9), (7, 6), (20, 200)):
        rows = window([[200] * sides[0]], WORDS, target=[300] * sides[1])
        (example,) = corrupt(wide("translation_lm"), rows)
        assert len(example["label_ids"]) == max(1, floor(Fraction(15, 100) * sum(sides) + Fraction(1, 2)))


def test_labels_are_uniform_over_both_sides_and_each_is_first_in_half_of_the_rows() -> None:
    rows = window([list(range(200, 230))], WORDS, 6000, target=list(range(300, 330)))
    objective = wide("translation_lm")
    columns = corrupt(objective, rows, np.arange(6000), seed=3).columns
    labels = columns["label_ids"].values.astype(int)
    observed = np.bincount(np.where(labels < 300, labels - 200, labels - 270), minlength=60)
    assert chi_square_is_plausible(observed, np.full(60, 6000 * 9 / 60), 59, scale=1 - 9 / 60)
    assert within_sigmas(int(columns["languages"].values[::2].sum()), 6000, 0.5)


def test_worked_example() -> None:
    objective = build_objective(
        {"name": "translation_lm", "mask_rate": 0.4, "mask_share": 1.0, "random_share": 0.0}, WORDS
    )
    rows = window([CHINESE], WORDS, 4000, target=ENGLISH, language=7)
    examples = list(corrupt(objective, rows, np.arange(4000)))
    assert reachable(
        examples,
        input_ids=frame([MASK, 201, MASK, 203, 204], [300, MASK, MASK, 303]),
        label_positions=[1, 3, 8, 9],
        segment_starts=[0, 7],
        languages=[7, 1],
    )


def test_reasons() -> None:
    objective = build_objective({"name": "translation_lm", "max_length": 20}, WORDS)
    rows = Rows.concatenate(
        [
            window([CHINESE], WORDS),
            window([CHINESE], WORDS, target=[300] * 13),
            window([[SEP]], WORDS, target=[SEP]),
            window([[SEP]], WORDS, target=[300] * 16),
        ]
    )
    assert reasons(objective, rows) == ["empty", "too_long", "no_maskable", "none"]


def test_an_example_without_its_frame_is_an_error() -> None:
    objective = wide("translation_lm")
    example = corrupt(objective, window([CHINESE], WORDS, target=ENGLISH)).row(0)
    broken = Example(example.fixed, {**example.columns, "input_ids": example["input_ids"][:-1]})
    with pytest.raises(ValueError, match="no pair of segments"):
        objective.uncorrupt(broken)


def test_options() -> None:
    objective = build_objective("translation_lm", WORDS)
    assert objective.grouping.label == "parallel-253-none-cut=longer"
    assert objective.options.reset_positions
