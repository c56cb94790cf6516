"""The whole stage on documents in memory: what stays, what is said about the rest, and that order
cannot matter."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.dedup.config import DedupConfig
from clozeline.pipeline.dedup.parts import (
    CLUSTER,
    CLUSTER_SCHEMA,
    count_ranges,
    find_hash_bounds,
    pack_rows,
    uid_bytes,
    uid_column,
    write_clusters,
)
from tests.pipeline.dedup.dedup_documents import EXACT, NEAR, document


@pytest.mark.parametrize("config", [EXACT, NEAR, {}])
def test_ten_thousand_copies_leave_one(run_dedup, config):
    copies = [document(n, "the same short text in ten thousand places") for n in range(10_000)]
    result = run_dedup([copies[::2], copies[1::2]], config, shards=4)

    assert [row.uid for row in result.documents()] == [min(row.uid for row in copies)]
    assert sum(result.counts["rejected"].values()) == 9_999

    if config == NEAR:
        # Each band key lists each copy once: work grows with the copies, not with their pairs.
        assert result.counts["near"]["candidates"] == 14 * 10_000


def test_clusters_are_written_by_name_then_uid_and_keep_trailing_zeros(tmp_path):
    rows = [
        (b"b" * 16, b"c" * 16),
        (b"a" * 15 + b"\0", b"z" * 16),
        (b"b" * 16, b"b" * 16),
        (b"a" * 15 + b"\0", bytes(16)),
    ]

    names, uids = (uid_column([row[side] for row in rows]) for side in (0, 1))
    columns = {
        "cluster": names,
        "uid": uids,
        "kept": np.array([0, 1, 1, 0], bool),
    }
    columns["similarity"] = np.array([0.5, 1, 1, 0.25], np.float32)
    write_clusters(tmp_path / "c.arrow", pack_rows(CLUSTER, columns))
    table = pa.ipc.open_file(tmp_path / "c.arrow").read_all()

    assert table.schema == CLUSTER_SCHEMA
    assert [(row["cluster"], row["uid"]) for row in table.to_pylist()] == sorted(rows)
    assert table["kept"].to_pylist() == [False, True, True, False]
    assert table["similarity"].to_pylist() == [0.25, 1.0, 1.0, 0.5]


@given(st.lists(st.binary(min_size=16, max_size=16)), st.integers(1, 9))
def test_ranges_tile_sorted_hashes_by_their_leading_bits(values, ranges):
    hashes = np.sort(uid_column(values))
    slices = [slice(*bounds) for bounds in pairwise(find_hash_bounds(hashes, ranges))]

    assert [row for part in slices for row in uid_bytes(hashes[part])] == sorted(values)

    for index, part in enumerate(slices):
        for value in uid_bytes(hashes[part]):
            assert int.from_bytes(value, "big") * ranges >> 128 == index

    words = np.sort(
        np.array([int.from_bytes(value[:8], "big") for value in values], dtype=np.uint64)
    )
    bounds = find_hash_bounds(words, ranges)

    assert (bounds[0], bounds[-1]) == (0, len(words))

    for index, (first, last) in enumerate(pairwise(bounds)):
        assert all(int(word) * ranges >> 64 == index for word in words[first:last])


def test_nothing_to_do_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="remove the key"):
        validate(DedupConfig, {"exact": None, "near": None}, "test")
    with pytest.raises(ConfigurationError, match=r"did you mean .near\.verify"):
        validate(DedupConfig, {"near": {"verfy": 1}}, "test")


@pytest.mark.parametrize(
    ("shards", "ranges"), [(1, 1), (256, 256), (1024, 256), (1025, 257), (8192, 2048)]
)
def test_ranges_are_as_many_as_shards_up_to_256_then_one_for_4_shards(shards, ranges):
    assert count_ranges(shards) == ranges
