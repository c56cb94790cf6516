"""Files between the passes: drops of a part are gathered from all ranges, clusters are written in order."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.dedup.parts import CLUSTER, CLUSTER_SCHEMA, DROP, Parts, count_ranges, write_clusters
from clozeline.pipeline.dedup.rows import hash_bounds, pack_rows, uid_bytes, uid_column, write_rows
from clozeline.pipeline.execution.unit_record import Output


def test_drops_of_a_part_come_from_every_range_sorted_by_uid(tmp_path):
    draw = random.Random(4)
    parts = Parts(tmp_path / "clean", tmp_path / "dedup", own=4, ranges=3)
    wanted = {part: [] for part in range(4)}
    for index in range(3):
        rows = sorted((draw.choice([0, 1, 3]), draw.randbytes(15) + b"\0", draw.randbytes(16)) for _ in range(20))
        for part, uid, kept in rows:
            wanted[part].append((uid, kept))
        drops = pack_rows(
            DROP, {name: uid_column([row[1 + i] for row in rows]) for i, name in enumerate(("uid", "kept"))}
        )
        bounds = np.searchsorted([row[0] for row in rows], np.arange(5)).tolist()
        write_rows(Output(parts.folder), parts.shuffle("exact-drops"), index, drops, bounds)
    for part, drops in wanted.items():
        uids, kept = parts.drops("exact-drops", part)
        assert list(zip(uid_bytes(uids), uid_bytes(kept), strict=True)) == sorted(drops)
    assert not wanted[2]


def test_clusters_are_written_by_name_then_uid_and_keep_trailing_zeros(tmp_path):
    rows = [
        (b"b" * 16, b"c" * 16),
        (b"a" * 15 + b"\0", b"z" * 16),
        (b"b" * 16, b"b" * 16),
        (b"a" * 15 + b"\0", bytes(16)),
    ]
    names, uids = (uid_column([row[side] for row in rows]) for side in (0, 1))
    columns = {"cluster": names, "uid": uids, "kept": np.array([0, 1, 1, 0], bool)}
    columns["similarity"] = np.array([0.5, 1, 1, 0.25], np.float32)
    write_clusters(tmp_path / "c.arrow", pack_rows(CLUSTER, columns))
    table = pa.ipc.open_file(tmp_path / "c.arrow").read_all()
    assert table.schema == CLUSTER_SCHEMA
    assert [(row["cluster"], row["uid"]) for row in table.to_pylist()] == sorted(rows)
    assert table["kept"].to_pylist() == [False, True, True, False]
    assert table["similarity"].to_pylist() == [0.25, 1.0, 1.0, 0.5]


def test_ranges_are_as_many_as_shards_up_to_256_then_one_for_16_shards():
    assert [count_ranges(shards) for shards in (1, 255, 256, 257, 4096, 4097, 16_000)] == [
        1,
        255,
        256,
        256,
        256,
        257,
        1000,
    ]


@given(st.lists(st.binary(min_size=16, max_size=16)), st.integers(1, 9))
def test_ranges_tile_sorted_hashes_by_their_leading_bits(values, ranges):
    hashes = np.sort(uid_column(values))
    slices = [slice(*bounds) for bounds in pairwise(hash_bounds(hashes, ranges))]
    assert [row for part in slices for row in uid_bytes(hashes[part])] == sorted(values)
    for index, part in enumerate(slices):
        for value in uid_bytes(hashes[part]):
            assert int.from_bytes(value, "big") * ranges >> 128 == index
    words = np.sort(np.array([int.from_bytes(value[:8], "big") for value in values], dtype=np.uint64))
    bounds = hash_bounds(words, ranges)
    assert (bounds[0], bounds[-1]) == (0, len(words))
    for index, (first, last) in enumerate(pairwise(bounds)):
        assert all(int(word) * ranges >> 64 == index for word in words[first:last])
