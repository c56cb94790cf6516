"""Passages cut at their limit."""

from __future__ import annotations

from clozeline.tools.shards.inspect_shard import view_of
from tests.tools.shards.viewer.shown_rows import part


def test_long_rows_are_cut(shard_sets):
    shown = part(view_of(shard_sets / "encode", 0, limit=10), "token_ids").text.plain
    assert "more tokens" in shown
    assert len(shown) < 120
