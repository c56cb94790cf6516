"""Lengths drawn until they reach a total, and merged spans, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.kernels.distributions import inverse_cdf, poisson_thresholds, reciprocal_thresholds
from clozeline.pipeline.kernels.spans import draw_lengths, limit_spans
from clozeline.pipeline.rows import Ragged
from clozeline.seeding import LENGTHS, random_bits

KEYS = random_bits(np.array([7], np.uint64), 0, 60)[0]


@pytest.mark.parametrize("law", [reciprocal_thresholds(5), poisson_thresholds(3000)])
@pytest.mark.parametrize("first", [1, 40])
def test_lengths_until_equal_a_plain_loop(law: np.ndarray, first: int) -> None:
    """The number of words drawn at first never matters."""
    totals = np.arange(60)
    found = draw_lengths(KEYS, totals, law, np.full(60, first))
    for row, total in enumerate(totals.tolist()):
        lengths: list[int] = []
        for length in inverse_cdf(random_bits(KEYS[row : row + 1], LENGTHS, 400)[0], law).tolist():
            if sum(lengths) >= total:
                break
            lengths.append(min(length, total - sum(lengths)))
        assert found[row].tolist() == lengths
        assert sum(lengths) == total


@given(st.lists(st.tuples(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.integers(1, 9)), max_size=6))
def test_merged_equals_a_plain_loop(cases: list[tuple[list[int], int]]) -> None:
    """Zero lengths are dropped from the end first, then the last spans become one."""
    limits = np.array([limit for _, limit in cases], np.int64)
    found = limit_spans(Ragged.from_lists([lengths for lengths, _ in cases], np.int64), limits)
    for row, (lengths, limit) in enumerate(cases):
        spans = list(lengths)
        while len(spans) > limit and 0 in spans:
            del spans[len(spans) - 1 - spans[::-1].index(0)]
        if len(spans) > limit:
            spans = [*spans[: limit - 1], sum(spans[limit - 1 :])]
        assert found[row].tolist() == spans
