"""Spans of a target by their sentinels."""

from __future__ import annotations

from clozeline.tools.shards.inspect_shard import view_of
from tests.tools.shards.viewer.shown_rows import flat, part, row_of, sample_text, text
from tests.tools.small_run import example_sets


def test_sentinels_and_their_spans_stand_side_by_side(shard_sets, tokenizer):
    manifest, _ = example_sets(shard_sets)["span_corruption"]
    for number in range(20):
        row, view = row_of(manifest, number), view_of(manifest, number)
        spans = part(view, "spans").rows
        sentinels = [token for token in row["target_ids"].tolist() if tokenizer.piece(token).startswith("<extra_")]
        assert [text(cells[0]) for cells in spans] == [tokenizer.piece(token) for token in sentinels]
        spans_text = "".join(f"{text(cells[0])}{text(cells[2])}" for cells in spans)
        assert flat(spans_text) + "</s>" == tokenizer.decode(row["target_ids"].tolist())
        assert all(cells[0][0].number == cells[2][0].number for cells in spans)
        whole = flat(text(part(view, "original").tokens))
        assert whole == sample_text(shard_sets, "span_corruption", number, tokenizer) + "</s>"
