from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dedup.columns import range_slice, read_columns, uid_bytes, uid_column, write_columns
from pipeline.dedup.exact import normalise_url
from pipeline.dedup.keep import kept_rows
from pipeline.errors import IntegrityError, StorageError


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("HTTPS://Example.org:443/A#top", "example.org/A"),
        ("http://example.org", "example.org/"),
        ("http://example.org:8080/a?b=c", "example.org:8080/a?b=c"),
        ("http://user@Example.org./x", "example.org/x"),
        ("http://[::1/x", "http://[::1/x"),
        ("http://h:port/x", "http://h:port/x"),
        ("", "/"),
    ],
)
def test_normal_form_of_urls(url, form):
    assert normalise_url(url) == form


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.binary(min_size=16, max_size=16)), max_size=40))
def test_kept_rows_equal_a_slow_rule(rows):
    groups, merit = (np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1))
    kept = kept_rows(groups, merit, uid_column([row[2] for row in rows]))
    for number, row in enumerate(rows):
        best = min((r for r in rows if r[0] == row[0]), key=lambda r: (-r[1], r[2]))
        assert rows[kept[number]] == best


@given(st.lists(st.binary(min_size=16, max_size=16)), st.integers(1, 9))
def test_ranges_tile_sorted_hashes_by_their_leading_bits(values, ranges):
    hashes = np.sort(uid_column(values))
    slices = [range_slice(hashes, index, ranges) for index in range(ranges)]
    assert [row for part in slices for row in uid_bytes(hashes[part])] == sorted(values)
    for index, part in enumerate(slices):
        for value in uid_bytes(hashes[part]):
            assert int.from_bytes(value, "big") * ranges >> 128 == index
    words = np.sort(np.array([int.from_bytes(value[:8], "big") for value in values], dtype=np.uint64))
    assert sum(len(words[range_slice(words, index, ranges)]) for index in range(ranges)) == len(words)


def test_columns_come_back_and_other_facts_are_refused(tmp_path):
    path = tmp_path / "a.arrow"
    columns = {
        "uid": uid_column([b"\0" * 16, b"a" + b"\0" * 15]),
        "sketch": np.arange(6, dtype=np.uint16).reshape(2, 3),
        "merit": np.array([-1, 2**40]),
    }
    write_columns(path, columns, {"seed": 1})
    found = read_columns(path, {"seed": 1})
    assert {name: values.tolist() for name, values in found.items()} == {n: v.tolist() for n, v in columns.items()}
    assert uid_bytes(found["uid"]) == [b"\0" * 16, b"a" + b"\0" * 15]
    with pytest.raises(IntegrityError, match=r"expected .*2"):
        read_columns(path, {"seed": 2})
    with pytest.raises(StorageError, match="missing"):
        read_columns(tmp_path / "b.arrow")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(IntegrityError, match="not an intermediate file"):
        read_columns(path)
    write_columns(path, {name: values[:0] for name, values in columns.items()})
    assert [values.shape for values in read_columns(path).values()] == [(0,), (0, 3), (0,)]
