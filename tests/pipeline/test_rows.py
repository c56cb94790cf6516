"""Ragged lists and rows against lists of lists."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.rows import Ragged, RowBatch, equal_offsets

lists_of_lists = st.lists(st.lists(st.integers(0, 65_535), max_size=6), max_size=8)


def plain(ragged):
    return [ragged[row].tolist() for row in range(len(ragged))]


@given(lists_of_lists, st.data())
def test_lists_come_back_in_any_order(lists, data):
    ragged = Ragged.from_lists(lists, np.uint16)

    assert plain(ragged) == lists

    lengths = [len(one) for one in lists]

    assert ragged.lengths.tolist() == lengths
    assert ragged.width == (lengths[0] if len(set(lengths)) == 1 else None)

    chosen = data.draw(st.lists(st.integers(0, max(0, len(lists) - 1)), max_size=6 if lists else 0))

    assert plain(ragged.take(np.array(chosen, np.int64))) == [lists[row] for row in chosen]
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(lists))] * 2)))
    part = ragged.cut(first, last)

    assert plain(part) == lists[first:last]
    assert len(part.values) == sum(lengths[first:last])
    assert plain(
        Ragged.concatenate(
            [
                ragged,
                ragged.take(np.array(chosen, np.int64)),
            ]
        )
    ) == [
        *lists,
        *(lists[row] for row in chosen),
    ]


def test_a_matrix_is_taken_without_a_copy():
    matrix = np.arange(6, dtype=np.uint16).reshape(2, 3)
    ragged = Ragged.from_matrix(matrix)

    assert plain(ragged) == matrix.tolist()
    assert np.shares_memory(ragged.values, matrix)
    assert ragged.offsets is equal_offsets(2, 3)

    with pytest.raises(ValueError, match="read-only"):
        ragged.offsets[0] = 1


def test_rows_keep_fixed_and_list_columns_together():
    rows = RowBatch(
        {"uid": np.array([7, 8, 9])}, {"ids": Ragged.from_lists([[1], [], [2, 3]], np.uint16)}
    )

    assert [(int(row.fixed["uid"]), row["ids"].tolist()) for row in rows] == [
        (7, [1]),
        (8, []),
        (9, [2, 3]),
    ]

    moved = rows.take(np.array([2, 0]))

    assert moved.fixed["uid"].tolist() == [9, 7]
    assert plain(moved.columns["ids"]) == [[2, 3], [1]]

    both = RowBatch.concatenate([moved, rows])

    assert (len(both), both.fixed["uid"].tolist()) == (5, [9, 7, 7, 8, 9])
    assert plain(both.columns["ids"]) == [[2, 3], [1], [1], [], [2, 3]]
    assert len(RowBatch(rows.fixed, {})) == 3


def test_rows_and_row_say_what_they_hold():
    fixed = {
        "uid": np.array([10, 11], np.uint64),
        "document_uid": np.arange(32, dtype=np.uint8).reshape(2, 16),
    }
    rows = RowBatch(
        fixed, {"input_ids": Ragged.from_lists([[5, 6, 7], list(range(40))], np.uint16)}
    )

    assert repr(rows) == "RowBatch(2 rows: input_ids uint16 [43], uid, document_uid)"
    assert repr(rows.row(0)) == "ShardRow(sample 000000000000000a: input_ids uint16 [3])"
    assert ">43, 21.5 per row</td>" in rows._repr_html_()

    shown = rows.row(1)._repr_html_()

    assert f">{' '.join(map(str, range(24)))} …</td>" in shown
    assert f">{bytes(range(16, 32)).hex()}</td>" in shown

    with pytest.raises(KeyError, match="no column 'labels'; the row has input_ids"):
        rows.row(0)["labels"]
