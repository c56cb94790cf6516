"""Ranges of hashes, files of clusters, and options."""

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
from tests.pipeline.dedup.dedup_documents import NEAR, document


def test_ten_thousand_copies_leave_one(run_dedup):
    copies = [document(n, "the same short text in ten thousand places") for n in range(10_000)]
    result = run_dedup([copies[::2], copies[1::2]], NEAR, shards=4)

    assert [row.uid for row in result.documents()] == [min(row.uid for row in copies)]
    # each band key lists each copy once: work grows with the copies, not with their pairs
    assert result.counts["near"]["candidates"] == 14 * 10_000


def test_clusters_are_written_by_name_then_uid_and_keep_trailing_zeros(tmp_path):
    rows = [
        (b"b" * 16, b"c" * 16, False, 0.5),
        (b"a" * 15 + b"\0", b"z" * 16, True, 1.0),
        (b"b" * 16, b"b" * 16, True, 1.0),
        (b"a" * 15 + b"\0", bytes(16), False, 0.25),
    ]
    columns = {
        name: np.array(each)
        for (name, _), each in zip(CLUSTER, zip(*rows, strict=True), strict=True)
    }
    write_clusters(tmp_path / "c.arrow", pack_rows(CLUSTER, columns))
    table = pa.ipc.open_file(tmp_path / "c.arrow").read_all()

    assert table.schema == CLUSTER_SCHEMA
    assert [tuple(row.values()) for row in table.to_pylist()] == sorted(rows)


@given(st.lists(st.binary(min_size=16, max_size=16)), st.integers(1, 9))
def test_ranges_tile_sorted_hashes_by_their_leading_bits(values, ranges):
    hashes = np.sort(uid_column(values))
    words = np.sort(np.array([int.from_bytes(value[:8], "big") for value in values], np.uint64))
    numbers = [int.from_bytes(value, "big") for value in uid_bytes(hashes)]

    for ordered, found, bits in ((hashes, numbers, 128), (words, words.tolist(), 64)):
        bounds = find_hash_bounds(ordered, ranges)
        assert (bounds[0], bounds[-1], len(bounds)) == (0, len(values), ranges + 1)
        for index, (first, last) in enumerate(pairwise(bounds)):
            assert all(number * ranges >> bits == index for number in found[first:last])


def test_options_that_do_nothing_or_do_not_exist_are_refused():
    with pytest.raises(ConfigurationError, match="remove the key"):
        validate(DedupConfig, {"exact": None, "near": None}, "test")
    with pytest.raises(ConfigurationError, match=r"did you mean .near\.verify"):
        validate(DedupConfig, {"near": {"verfy": 1}}, "test")


def test_ranges_are_as_many_as_shards_up_to_256_then_one_for_4_shards():
    assert [count_ranges(n) for n in (1, 256, 1024, 1025, 8192)] == [1, 256, 256, 257, 2048]
