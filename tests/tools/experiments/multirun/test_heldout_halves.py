"""Halves of a held-out set: every row is in one of them, by its shard."""

from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import open_shards
from clozeline.tools.experiments.multirun.heldout_halves import HALVES, split_heldout
from tests.train.masked_set import write_masked_sets


def rows_of(folder: Path) -> list[tuple[int, ...]]:
    shards = open_shards(folder)
    blocks = [shards.read_block(block).columns["input_ids"] for block in range(len(shards.index))]
    return [tuple(ids[row].tolist()) for ids in blocks for row in range(len(ids))]


def test_every_row_is_in_one_half(tmp_path: Path) -> None:
    sets = write_masked_sets(tmp_path, heldout=90, heldout_shards=3).parents[1] / "heldout"
    split_heldout(sets, tmp_path / "halves")
    halves = [rows_of(tmp_path / "halves" / name) for name in HALVES]
    assert [len(one) for one in halves] == [60, 30]
    assert sorted(halves[0] + halves[1]) == sorted(rows_of(sets))
    assert len({open_shards(tmp_path / "halves" / name).digest for name in HALVES}) == 2
    split_heldout(sets, tmp_path / "halves")  # it is done


def test_one_shard_has_no_halves(tmp_path: Path) -> None:
    sets = write_masked_sets(tmp_path).parents[1] / "heldout"
    with pytest.raises(ConfigurationError, match=r"expected at least two shards.*got 1; raise heldout.fraction"):
        split_heldout(sets, tmp_path / "halves")
