"""Spans of a target by their sentinels."""

from __future__ import annotations

import numpy as np

from tools.viewer.sentinel_parts import sentinel_spans


def test_each_span_follows_its_sentinel():
    spans = sentinel_spans(np.array([90, 5, 6, 91, 92, 7]), (90, 91, 92))
    assert {number: positions.tolist() for number, positions in spans.items()} == {0: [1, 2], 1: [], 2: [5]}
