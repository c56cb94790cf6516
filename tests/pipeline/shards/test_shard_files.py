"""Files of a set against its manifest: listed by one process, and by size at the first read of all others."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clozeline.pipeline.shards import DamagedBlock, ManifestError, ShardSet, open_shards
from clozeline.pipeline.shards.column_set import JoinedShards
from clozeline.train.data.sets.datasets import Datasets
from clozeline.train.data.stream.phases import phase_of
from tests.shard_sets import toy_set, uids


class Looks:
    """Counts listings, sizes asked for in them, and opens of shards."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count: Counter[str] = Counter()
        scandir, open_ = os.scandir, os.open

        class Entry:
            def __init__(entry, real: os.DirEntry[str]) -> None:
                entry.real, entry.name, entry.is_file = real, real.name, real.is_file

            def stat(entry) -> os.stat_result:
                self.count["stat"] += "shard-" in entry.name
                return entry.real.stat()

        class Listing:
            def __init__(listing, path: Any) -> None:
                self.count["listing"] += 1
                listing.real = scandir(path)

            def __enter__(listing) -> Any:
                return map(Entry, listing.real)

            def __exit__(listing, *error: object) -> None:
                listing.real.close()

        def opening(path: Any, *rest: Any, **more: Any) -> int:
            self.count["open"] += "shard-" in os.fspath(path)
            return open_(path, *rest, **more)

        monkeypatch.setattr(os, "scandir", Listing)
        monkeypatch.setattr(os, "open", opening)


def test_of_512_ranks_one_on_each_machine_looks_at_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards, nodes, ranks = 20, 64, 8
    toy_set(tmp_path, [4] * shards)
    looks = Looks(monkeypatch)
    by_rank = []
    for rank in range(nodes * ranks):
        looks.count.clear()
        opened = open_shards(tmp_path, check_files=False)
        Datasets((phase_of([opened]),), {}, {}).check_files(rank, rank % ranks)
        by_rank.append((looks.count["listing"], looks.count["stat"], looks.count["open"]))
    assert by_rank == ([(1, shards, 0)] + [(0, 0, 0)] * (ranks - 1)) * nodes


def test_a_store_is_listed_by_the_first_rank_alone(memory: str) -> None:
    requests = []
    for rank in (0, 1, 8):
        opened = open_shards(memory, check_files=False)
        Datasets((phase_of([opened]),), {"heldout": opened}, {}).check_files(rank, rank % 8)
        requests.append(opened.stats()["requests"])
    assert requests == [5 + 1, 4, 4]  # manifest and its size, index and quarantine; one listing for each use of the set


def cut_end(shards: ShardSet) -> None:
    path = shards.shard_path(1)
    path.write_bytes(path.read_bytes()[:-1])  # behind the last block


def test_a_file_of_another_size_is_named_at_its_first_read_as_it_is_by_a_listing(tmp_path: Path) -> None:
    shards = toy_set(tmp_path, [4, 4, 4])
    trusting = open_shards(tmp_path, check_files=False)
    cut_end(shards)
    with pytest.raises(ManifestError) as listed:
        open_shards(tmp_path)
    assert len(trusting.read_block(0)) == len(trusting.read_block(2)) == 4
    for _ in range(2):  # also when a thread has failed before
        with pytest.raises(ManifestError) as read:
            trusting.read_block(1)
        assert str(read.value) == str(listed.value)


def test_a_missing_or_flipped_shard_is_found_at_the_first_read(tmp_path: Path) -> None:
    shards = toy_set(tmp_path, [4, 4])
    trusting = open_shards(tmp_path, check_files=False)
    path, offset = shards.shard_path(1), int(shards.index.offset[1])
    content = bytearray(path.read_bytes())
    content[offset + 90] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedBlock, match="xxh3-128"):
        trusting.read_block(1)
    path.unlink()
    with pytest.raises(DamagedBlock, match="No such file"):
        trusting.read_block(1)


def test_each_size_is_compared_once_and_after_a_listing_never(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy_set(tmp_path, [9, 9])
    asked: Counter[int] = Counter()
    fstat = os.fstat
    for check_files, expected in ((False, 2), (True, 0)):
        opened = open_shards(tmp_path, check_files=check_files)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fstat", lambda descriptor: (asked.update([0]), fstat(descriptor))[1])
            for _ in range(3):
                uids(opened)
        assert asked[0] == expected
        asked.clear()


def test_shards_in_quarantine_may_be_missing(tmp_path: Path) -> None:
    shards = toy_set(tmp_path, [4, 4])
    name = shards.shard_path(0).name
    (tmp_path / "quarantine.json").write_text(f'[{{"shard": "{name}", "block": 0, "reason": "damaged"}}]')
    shards.shard_path(0).unlink()
    opened = open_shards(tmp_path)
    assert opened.optional_shards == {0}
    joined = JoinedShards(opened, [])
    joined.check_files()
    shards.shard_path(1).unlink()
    with pytest.raises(ManifestError, match="no such file"):
        joined.check_files()
    assert np.array_equal(opened.index.rows, [4, 4])
