"""Spans of whole words: the law of their lengths, their boundaries, and the kernel against a plain loop."""

from __future__ import annotations

from fractions import Fraction
from math import floor, sqrt

import numpy as np
import pytest

from clozeline.pipeline.kernels.distributions import geometric_thresholds, inverse_cdf
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, masked, wide
from tests.pipeline.corruption_cases import MASK, SEP, WORDS, samples
from tests.pipeline.laws import chi_square_is_plausible
from tests.pipeline.word_cases import drawn, leaders_of, masked_by_hand, slow_take, slow_words


def slow_thresholds(success: Fraction, longest: int) -> list[int]:
    weights = [success * (1 - success) ** (length - 1) for length in range(1, longest + 1)]
    return [floor(sum(weights[:length], Fraction(0)) / sum(weights) * 2**32) for length in range(longest)]


@pytest.mark.parametrize("specials", [0.0, 0.1])
@pytest.mark.parametrize(("rate", "unit"), [(0.15, "span"), (0.5, "token")])
def test_equals_a_plain_loop(specials: float, rate: float, unit: str) -> None:
    objective = wide("span_boundary", mask_rate=rate, role_unit=unit)
    lengths = [1 + (37 * row) % 90 for row in range(300)] + [510] * 5
    rows = samples(lengths, specials=specials)
    thresholds = slow_thresholds(Fraction(1, 5), 10)
    for key, sample, example in keyed(objective, rows, variant=4, seed=6):
        ids = sample["ids"].tolist()
        row = slow_words(ids, WORDS)
        k = max(1, floor(Fraction(str(rate)) * sum(word.length for word in row) + Fraction(1, 2)))
        taken = sorted(slow_take(key, row, k, thresholds))
        places = [place for word in taken for place in range(row[word].start, row[word].start + row[word].length)]
        spans = [[places[0], 1]]
        for place in places[1:]:
            if place == sum(spans[-1]):
                spans[-1][1] += 1
            else:
                spans.append([place, 1])
        sizes = [size for _, size in spans]
        leaders = leaders_of(sizes) if unit == "span" else None
        assert masked(example) == masked_by_hand(key, [1, *ids, 2], [place + 1 for place in places], WORDS, leaders)
        assert example["span_starts"].tolist() == [start + 1 for start, _ in spans]
        assert example["span_lengths"].tolist() == sizes


def test_law_of_lengths() -> None:
    """Exact thresholds, mean 3.797 and every length's share; clipping would give 4.46."""
    thresholds = geometric_thresholds(200_000, 10)
    assert thresholds.tolist() == slow_thresholds(Fraction(1, 5), 10)
    shares = np.array([0.2 * 0.8 ** (length - 1) for length in range(1, 11)])
    shares /= shares.sum()
    lengths = inverse_cdf(np.array(drawn(np.uint64(7), 2, 200_000), np.uint64), thresholds)
    mean = float(shares @ np.arange(1, 11))
    spread = sqrt(float(shares @ (np.arange(1, 11) - mean) ** 2))
    assert abs(mean - 3.797) < 0.001
    assert abs(lengths.mean() - mean) < 5 * spread / sqrt(200_000)
    assert chi_square_is_plausible(np.bincount(lengths, minlength=11)[1:], 200_000 * shares, 9)


def test_spans_never_cross_a_separator_and_share_a_role() -> None:
    objective = wide("span_boundary", mask_rate=0.5)
    rows = samples([200] * 100, specials=0.1, seed=6)
    examples = corrupt(objective, rows)
    kinds = set()
    for example in examples:
        original = objective.uncorrupt(example)
        for start, size in zip(example["span_starts"].tolist(), example["span_lengths"].tolist(), strict=True):
            span, was = example["input_ids"][start : start + size], original[start : start + size]
            assert SEP not in was
            if (span == MASK).any():
                assert (span == MASK).all()
            kinds.add("mask" if span[0] == MASK else "kept" if (span == was).all() else "random")
    assert kinds == {"mask", "kept", "random"}
