"""Padding, as the comparison with the Trainer counts it."""

from __future__ import annotations

from benchmarks.own_models import BATCH, SKIPPED, count_padding


def test_padding_is_counted_in_the_timed_steps() -> None:
    timed = [2, 1, 2, 2] * (BATCH // 4)
    lengths = [99] * (SKIPPED * BATCH) + timed
    assert count_padding(lengths, BATCH) == (56, 1 - 56 / 64)
    assert count_padding(lengths, BATCH // 4) == (56, 0.0), "eight rows of one token, then three times eight of two"
