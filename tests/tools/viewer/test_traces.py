from __future__ import annotations

import numpy as np
import pytest

from pipeline.shards import open_shards
from tests.tools.small_run import example_sets
from tools.viewer.traces import trace_noise


@pytest.mark.parametrize("label", ["bart", "document_rotation", "text_infilling"])
def test_every_input_token_is_traced_to_the_original(shard_sets, label):
    shards = open_shards(example_sets(shard_sets)[label][0])
    for block in range(len(shards.index)):
        for row in shards.read_block(block):
            original, content = row["target_ids"][:-1], row["input_ids"][1:-1]
            trace = trace_noise(row.columns, len(original))
            assert len(trace.origin) == len(content)
            known = trace.origin >= 0
            np.testing.assert_array_equal(content[known], original[trace.origin[known]])
            assert (-1 - trace.origin[~known]).tolist() == list(range(len(trace.spans)))
            everything = np.concatenate([trace.origin[known], *trace.spans])
            assert sorted(everything.tolist()) == list(range(len(original)))


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
