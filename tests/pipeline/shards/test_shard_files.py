"""Files of a set against its manifest: listed by one process, and by their blocks at the reads of all others."""

import os
from collections import Counter

import numpy as np
import pytest

from clozeline.pipeline.shards import DamagedBlock, ManifestError, open_shards
from clozeline.pipeline.shards.column_set import JoinedShards
from clozeline.train.data.sets.datasets import Datasets
from clozeline.train.data.stream.phases import phase_of
from tests.shard_sets import toy_set


class Looks:
    """Counts listings, sizes asked for in them, and opens of shards."""

    def __init__(self, monkeypatch):
        self.count = Counter()
        scandir, open_ = os.scandir, os.open

        class Entry:
            def __init__(entry, real):
                entry.real, entry.name, entry.is_file = real, real.name, real.is_file

            def stat(entry):
                self.count["stat"] += "shard-" in entry.name
                return entry.real.stat()

        class Listing:
            def __init__(listing, path):
                self.count["listing"] += 1
                listing.real = scandir(path)

            def __enter__(listing):
                return map(Entry, listing.real)

            def __exit__(listing, *error):
                listing.real.close()

        def opening(path, *rest, **more):
            self.count["open"] += "shard-" in os.fspath(path)
            return open_(path, *rest, **more)

        monkeypatch.setattr(os, "scandir", Listing)
        monkeypatch.setattr(os, "open", opening)


def test_of_512_ranks_one_on_each_machine_looks_at_the_files(tmp_path, monkeypatch):
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


def test_a_store_is_listed_by_the_first_rank_alone(memory):
    requests = []
    for rank in (0, 1, 8):
        opened = open_shards(memory, check_files=False)
        Datasets((phase_of([opened]),), {"heldout": opened}, {}).check_files(rank, rank % 8)
        requests.append(opened.stats()["requests"])
    assert requests == [4 + 1, 3, 3]  # manifest, index and quarantine; one listing for each use of the set


def test_a_missing_or_flipped_shard_is_found_at_the_first_read(tmp_path):
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


def test_shards_in_quarantine_may_be_missing(tmp_path):
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
