"""Columns of a micro-batch as matrices, against plain loops over rows."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream.padding import (
    document_bounds,
    one_a_row,
    pad_rows,
    paired_bounds,
    part_numbers,
    restarting_positions,
    start_marks,
)

LISTS = st.lists(st.lists(st.integers(0, 60_000), max_size=7), min_size=1, max_size=6)
FEW = settings(max_examples=40)


@st.composite
def parts(draw: st.DrawFn) -> tuple[list[int], list[list[int]]]:
    """Lengths of rows, and the starts of their parts, first 0; the last may start after the row's last token."""
    lengths = draw(st.lists(st.integers(1, 8), min_size=1, max_size=5))
    return lengths, [sorted({0, *draw(st.lists(st.integers(0, length), max_size=4))}) for length in lengths]


@FEW
@given(LISTS, st.integers(0, 9))
def test_rows_are_padded_to_the_longest(lists: list[list[int]], pad: int) -> None:
    matrix, lengths = pad_rows(Ragged.from_lists(lists, np.uint16), pad)
    width = max(1, *map(len, lists))
    assert matrix.tolist() == [[*row, *[pad] * (width - len(row))] for row in lists]
    assert lengths.tolist() == [len(row) for row in lists]


@FEW
@given(LISTS)
def test_a_slice_of_a_column_is_padded_like_a_whole_one(lists: list[list[int]]) -> None:
    whole = Ragged.from_lists([[1, 2], *lists], np.uint16)
    rest = Ragged(whole.values[2:], whole.offsets[1:] - 2)
    assert pad_rows(rest, 0)[0].tolist() == pad_rows(Ragged.from_lists(lists, np.uint16), 0)[0].tolist()


@FEW
@given(st.lists(st.lists(st.integers(1, 9), max_size=1), min_size=1, max_size=6))
def test_rows_without_a_value_have_0(lists: list[list[int]]) -> None:
    assert one_a_row(Ragged.from_lists(lists, np.uint16)).tolist() == [row[0] if row else 0 for row in lists]


def test_several_values_of_a_row_are_refused() -> None:
    with pytest.raises(IntegrityError, match="expected one value of this column in each row, got 3"):
        one_a_row(Ragged.from_lists([[1], [], [2, 3, 4]], np.uint16))


@FEW
@given(parts())
def test_facts_of_places_from_the_starts_of_parts(found: tuple[list[int], list[list[int]]]) -> None:
    lengths, starts = found
    width = max(lengths)
    column = Ragged.from_lists(starts, np.uint16)
    marks = start_marks(column, len(lengths), width)
    assert marks.tolist() == [[int(place in row) for place in range(width)] for row in starts]
    numbers = part_numbers(column, np.array(lengths), width)
    positions = restarting_positions(marks)
    bounds = []
    for row, (length, begins) in enumerate(zip(lengths, starts, strict=True)):
        for place in range(width):
            begun = [start for start in begins if start <= place]
            assert numbers[row, place] == (len(begun) - 1 if place < length else 0)
            assert positions[row, place] == place - begun[-1]
        inside = {start for start in begins if start < width} | ({length} if length < width else set())
        bounds += [row * width + start for start in sorted(inside)]
    found_bounds = document_bounds(marks, np.array(lengths))
    assert found_bounds.tolist() == [*bounds, len(lengths) * width]
    assert marks.tolist() == [[int(place in row) for place in range(width)] for row in starts], "marks stay as they are"


@FEW
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4), min_size=1, max_size=4)
)
def test_targets_share_a_document_with_their_own_source_alone(rows: list[list[tuple[int, int]]]) -> None:
    """Source and target sizes of documents; padding has the number of the last one."""
    ids = [[[n for n, sizes in enumerate(row) for _ in range(sizes[side])] for row in rows] for side in (0, 1)]
    lengths, width, target_width = [len(row) or 1 for row in ids[0]], *(max(1, *map(len, side)) for side in ids)
    source, target = (
        torch.tensor([[*own, *[len(row) - 1] * (most - len(own))] for own, row in zip(side, rows, strict=True)])
        for side, most in zip(ids, (width, target_width), strict=True)
    )
    tensors = {"document_ids": source, "decoder_document_ids": target, "lengths": torch.tensor(lengths)}
    found = paired_bounds(tensors)
    bounds = [found[f"{side}cu_seqlens"].numpy() for side in ("", "decoder_")]
    assert bounds[0].dtype == bounds[1].dtype == np.int32
    assert len(bounds[0]) == len(bounds[1])
    assert [int(found[f"{side}max_seqlen"]) for side in ("", "decoder_")] == [np.diff(own).max() for own in bounds]
    at = [np.searchsorted(own, np.arange(own[-1]), side="right") - 1 for own in bounds]
    assert [len(own) for own in at] == [source.numel(), target.numel()]
    for i, j in product(range(target.numel()), range(source.numel())):
        (row, column), (b, place) = divmod(i, target_width), divmod(j, width)
        together = row == b and place < lengths[b] and target[row, column] == source[b, place]
        assert (at[1][i] == at[0][j]) == together
