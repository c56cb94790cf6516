from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.errors import IntegrityError, StorageError
from clozeline.pipeline.dedup.columns import (
    hash_bounds,
    read_columns,
    uid_bytes,
    uid_column,
    write_columns,
)
from clozeline.recorded_file import RecordedFile


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


def test_columns_come_back_and_other_facts_are_refused(tmp_path):
    path = tmp_path / "a.arrow"
    columns = {
        "uid": uid_column([b"\0" * 16, b"a" + b"\0" * 15]),
        "sketch": np.arange(6, dtype=np.uint16).reshape(2, 3),
        "merit": np.array([-1, 2**40]),
    }
    write_columns(path, columns, {"seed": 1})
    found = read_columns(RecordedFile(path), {"seed": 1})
    assert {name: values.tolist() for name, values in found.items()} == {n: v.tolist() for n, v in columns.items()}
    assert uid_bytes(found["uid"]) == [b"\0" * 16, b"a" + b"\0" * 15]
    with pytest.raises(IntegrityError, match=r"expected .*2"):
        read_columns(RecordedFile(path), {"seed": 2})
    with pytest.raises(StorageError, match="missing"):
        read_columns(RecordedFile(tmp_path / "b.arrow"))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(IntegrityError, match="not an intermediate file"):
        read_columns(RecordedFile(path))
    write_columns(path, {name: values[:0] for name, values in columns.items()})
    assert [values.shape for values in read_columns(RecordedFile(path)).values()] == [(0,), (0, 3), (0,)]
