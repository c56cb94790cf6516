"""A million shards on paper: nothing in opening or in the order grows with them but the manifest and the index."""

from __future__ import annotations

import builtins
import io
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scale import in_fresh_process, write_synthetic
from clozeline.pipeline.shards.index import read_index
from clozeline.pipeline.shards.manifest import Manifest
from clozeline.train.data.stream.order import BlockOrder, LogicalBlocks


def test_the_order_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clozeline.pipeline.shards.manifest_writer._INLINE_LIMIT", 1000)
    write_synthetic(tmp_path, 1000)
    opened: list[str] = []
    real = os.open

    def noted(path: Any, *arguments: Any) -> int:
        opened.append(Path(path).name)
        return real(path, *arguments)

    monkeypatch.setattr(os, "open", noted)
    manifest = Manifest.load(tmp_path)
    index = read_index(
        tmp_path / manifest.index.path, manifest.index.bytes, manifest.index.sha256, manifest.totals.blocks
    )
    assert sorted(opened) == ["index.arrow", "manifest.json", "shards.parquet"], "each file once"

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
def test_a_million_shards_and_ten_thousand_ranks(tmp_path: Path) -> None:
    write_synthetic(tmp_path, 1_000_000)
    found = in_fresh_process(tmp_path, 10_000)
    assert found["shards"] == 1_000_000
    assert found["heap MiB"] < 300
