"""The most shards of a set on paper: nothing in opening or in the order grows with them but manifest and index."""

from __future__ import annotations

import builtins
import io
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scale import in_fresh_process, write_synthetic
from clozeline.pipeline.shards.index import parse_index
from clozeline.pipeline.shards.manifest import SHARD_LIMIT, Manifest
from clozeline.train.data.stream.order import BlockOrder, LogicalBlocks


def test_the_order_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_synthetic(tmp_path, 1000)
    opened: list[str] = []
    real = os.open

    def noted(path: Any, *arguments: Any) -> int:
        opened.append(Path(path).name)
        return real(path, *arguments)

    monkeypatch.setattr(os, "open", noted)
    manifest = Manifest.load(tmp_path)
    assert opened == ["manifest.json"], "once"
    index = parse_index("index", (tmp_path / manifest.index.path).read_bytes(), manifest)

    def refused(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("opened")

    for module in (builtins, io, os):
        monkeypatch.setattr(module, "open", refused)
    order = BlockOrder(manifest.name, manifest.totals.samples, manifest.block_rows, 1, 500)
    blocks = LogicalBlocks(index.rows, manifest.block_rows)
    turn = order.round_at(3 * order.lane_rows + 5)
    found = [blocks.pieces(load.block)[0].block for rank in range(500) for load in order.loads(turn, rank, rank + 1)]
    assert len(set(found)) == 500


@pytest.mark.slow
def test_the_most_shards_and_ten_thousand_ranks(tmp_path: Path) -> None:
    write_synthetic(tmp_path, SHARD_LIMIT)
    found = in_fresh_process(tmp_path, 10_000)
    assert found["shards"] == SHARD_LIMIT
    assert found["heap MiB"] < 300
