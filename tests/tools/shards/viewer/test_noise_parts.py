"""Rows whose target is the original: both orders, every span, what moved."""

from __future__ import annotations

import numpy as np
import pytest

from clozeline.pipeline.corrupt.preview.noise_parts import trace_noise
from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.inspect_shard import view_of
from tests.tools.shards.viewer.shown_rows import flat, part, row_of, sample_text, text
from tests.tools.small_run import example_sets


def test_reordered_and_infilled_rows_show_both_orders_and_every_span(shard_sets, tokenizer):
    manifest, _ = example_sets(shard_sets)["bart"]
    orders = 0
    for number in range(30):
        row, view = row_of(manifest, number), view_of(manifest, number)
        spans = part(view, "spans").rows
        assert len(spans) == len(row["text_infilling_span_starts"])
        assert all(text(cells[0]) == "<mask>" for cells in spans)
        empty = [text(cells[2]).startswith("(nothing") for cells in spans]
        assert empty == [length == 0 for length in row["text_infilling_span_lengths"].tolist()]
        order = row["sentence_reordering_sentence_order"].tolist()
        if order != sorted(order):
            orders += 1
            sheet = part(view, "sentence order").rows
            assert [int(cells[1]) - 1 for cells in sheet] == order
            sentences = {int(cells[1]): text(cells[2]) for cells in sheet}
            together = flat("".join(sentences[place] for place in sorted(sentences)))
            assert together == sample_text(shard_sets, "bart", number, tokenizer)
    assert orders > 5


def test_rotated_rows_show_what_moved(shard_sets, tokenizer):
    manifest, _ = example_sets(shard_sets)["document_rotation"]
    row, view = row_of(manifest, 3), view_of(manifest, 3)
    count = int(row["rotation"][0])
    ((shown, moved),) = part(view, "rotation").rows
    assert (shown, flat(text(moved))) == (str(count), tokenizer.decode(row["target_ids"][:count].tolist()))
    assert sum(token.role == "moved" for token in part(view, "input").tokens) > 0


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
