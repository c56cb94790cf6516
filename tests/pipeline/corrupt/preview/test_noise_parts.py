from __future__ import annotations

import numpy as np

from clozeline.pipeline.corrupt.preview.noise_parts import trace_noise


def test_noise_by_hand():
    columns = {
        "target_ids": np.array([10, 11, 12, 13, 2]),
        "rotation": np.array([1]),
        "span_starts": np.array([1, 3]),
        "span_lengths": np.array([2, 0]),
    }
    trace = trace_noise(columns, 4)
    assert trace.origin.tolist() == [1, -1, -2, 0]
    assert [span.tolist() for span in trace.spans] == [[2, 3], []]
    shuffled = trace_noise({"token_order": np.array([2, 1, 0])}, 3)
    assert (shuffled.origin.tolist(), shuffled.shuffled) == ([2, 1, 0], {0, 2})
    assert trace_noise({"kept_positions": np.array([0, 2])}, 3).origin.tolist() == [0, 2]
