"""Ragged columns as matrices, and the parts of their rows, against plain loops."""

import doctest
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import clozeline.train.data.stream.padding
from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream.padding import (
    document_bounds,
    pad_left,
    pad_rows,
    paired_bounds,
    part_numbers,
    restarting_positions,
    scalar_column,
    segment_tensors,
    start_marks,
)
from tests.train.data.stream.test_collate import column

LISTS = st.lists(
    st.lists(st.integers(0, 60_000), max_size=7),
    min_size=1,
    max_size=6,
)
FEW = settings(max_examples=40)


@st.composite
def parts(draw):
    """Lengths of rows, and the starts of their parts, first 0.

    The last may start after the row's last token.
    """
    lengths = draw(st.lists(st.integers(1, 8), min_size=1, max_size=5))
    return lengths, [
        sorted(
            {
                0,
                *draw(st.lists(st.integers(0, length), max_size=4)),
            }
        )
        for length in lengths
    ]


@FEW
@given(LISTS, st.integers(0, 9))
def test_rows_are_padded_to_the_longest(lists, pad):
    matrix, lengths = pad_rows(Ragged.from_lists(lists, np.uint16), pad)
    width = max(1, *map(len, lists))
    assert matrix.tolist() == [[*row, *[pad] * (width - len(row))] for row in lists]
    assert lengths.tolist() == [len(row) for row in lists]


@FEW
@given(
    st.lists(
        st.lists(st.integers(1, 9), max_size=1),
        min_size=1,
        max_size=6,
    )
)
def test_rows_without_a_value_have_0(lists):
    assert scalar_column(Ragged.from_lists(lists, np.uint16)).tolist() == [
        row[0] if row else 0 for row in lists
    ]


def test_several_values_of_a_row_are_refused():
    with pytest.raises(
        IntegrityError, match="expected one value of this column in each row, got 3"
    ):
        scalar_column(Ragged.from_lists([[1], [], [2, 3, 4]], np.uint16))


@FEW
@given(parts())
def test_facts_of_places_from_the_starts_of_parts(found):
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

        inside = {start for start in begins if start < width} | (
            {length} if length < width else set()
        )
        bounds += [row * width + start for start in sorted(inside)]

    found_bounds = document_bounds(marks, np.array(lengths))

    assert found_bounds.tolist() == [*bounds, len(lengths) * width]
    assert marks.tolist() == [[int(place in row) for place in range(width)] for row in starts], (
        "marks stay as they are"
    )


@FEW
@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 3), st.integers(0, 3)),
            min_size=1,
            max_size=4,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_targets_share_a_document_with_their_own_source_alone(rows):
    """Source and target sizes of documents; padding has the number of the last one."""
    ids = [
        [[n for n, sizes in enumerate(row) for _ in range(sizes[side])] for row in rows]
        for side in (0, 1)
    ]
    lengths, width, target_width = (
        [len(row) or 1 for row in ids[0]],
        *(max(1, *map(len, side)) for side in ids),
    )
    source, target = (
        torch.tensor(
            [
                [*own, *[len(row) - 1] * (most - len(own))]
                for own, row in zip(side, rows, strict=True)
            ]
        )
        for side, most in zip(ids, (width, target_width), strict=True)
    )

    tensors = {
        "document_ids": source,
        "decoder_document_ids": target,
        "lengths": torch.tensor(lengths),
    }

    found = paired_bounds(tensors)
    bounds = [found[f"{side}cu_seqlens"].numpy() for side in ("", "decoder_")]

    assert bounds[0].dtype == bounds[1].dtype == np.int32
    assert len(bounds[0]) == len(bounds[1])
    assert [int(found[f"{side}max_seqlen"]) for side in ("", "decoder_")] == [
        np.diff(own).max() for own in bounds
    ]

    at = [np.searchsorted(own, np.arange(own[-1]), side="right") - 1 for own in bounds]

    assert [len(own) for own in at] == [source.numel(), target.numel()]

    for i, j in product(range(target.numel()), range(source.numel())):
        (row, column), (b, place) = divmod(i, target_width), divmod(j, width)
        together = row == b and place < lengths[b] and target[row, column] == source[b, place]
        assert (at[1][i] == at[0][j]) == together


ROWS = st.lists(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60)
@given(
    ROWS,
    st.booleans(),
    st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_tokens_equal_a_slow_loop(rows, one_code, restarts):
    """Rows are given as the sizes of their segments; the code of segment s in row r is 10 r + s."""
    lengths = np.array([sum(sizes) for sizes in rows])
    width = int(lengths.max()) + 1
    types, codes, positions = (np.zeros((len(rows), width), np.int64) for _ in range(3))

    for row, sizes in enumerate(rows):
        tokens = [(segment, place) for segment, size in enumerate(sizes) for place in range(size)]
        for place, (segment, own) in enumerate(tokens):
            types[row, place] = segment
            codes[row, place] = 10 * row + (0 if one_code else segment)
            positions[row, place] = own if restarts[row] else place

    columns = {
        "segment_starts": column([np.cumsum([0, *sizes[:-1]]).tolist() for sizes in rows]),
        "languages": column(
            [
                [10 * row + segment for segment in range(1 if one_code else len(sizes))]
                for row, sizes in enumerate(rows)
            ]
        ),
    }

    found = segment_tensors(columns, lengths, width, np.array(restarts[: len(rows)]))
    inside = np.arange(width) < lengths[:, None]
    for name, wanted in (("type_ids", types), ("languages", codes), ("position_ids", positions)):
        if name in found or name != "position_ids":
            assert (found[name].numpy() == wanted)[inside].all(), name

    assert ("position_ids" in found) == any(restarts[: len(rows)])


LENGTHS = (5, 3, 1)


def test_every_token_keeps_what_belongs_to_it():
    """By hand, row by row; pads come before the tokens, and [CLS] has a type of its own."""
    draw = torch.Generator().manual_seed(0)
    names = ("input_ids", "position_ids", "type_ids", "rank")
    batch = {name: torch.randint(0, 9, (3, 5), generator=draw) for name in names}
    batch |= {
        "lengths": torch.tensor(LENGTHS),
        "label_index": torch.tensor([4, 0, 6, 10]),
    }
    kept = {name: tensor.clone() for name, tensor in batch.items()}
    moved = pad_left(batch)

    assert all(torch.equal(batch[name], kept[name]) for name in batch)
    assert moved["left_padding"].tolist() == [0, 2, 4]
    assert moved["label_index"].tolist() == [4, 0, 8, 14]

    for row, length in enumerate(LENGTHS):
        for name in names:
            last = [2] if name == "type_ids" else batch[name][row, length - 1 : length].tolist()
            assert moved[name][row, 5 - length :].tolist() == [
                *batch[name][row, : length - 1].tolist(),
                *last,
            ]
            assert moved[name][row, : 5 - length].tolist() == batch[name][row, length:].tolist()


def test_bounds_of_documents():
    batch = {
        "input_ids": torch.ones(2, 5),
        "lengths": torch.tensor([5, 3]),
    }
    batch["document_ids"] = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 1, 1]])
    batch["position_ids"] = torch.tensor([[0, 1, 0, 1, 2], [0, 0, 1, 2, 3]])
    moved = pad_left(batch)

    assert moved["cu_seqlens"].tolist() == [0, 2, 5, 7, 8, 10]
    assert moved["max_seqlen"].item() == 3
    assert moved["document_ids"].tolist() == [[0, 0, 1, 1, 1], [1, 1, 0, 1, 1]]


def test_examples_in_docstrings():
    assert doctest.testmod(clozeline.train.data.stream.padding).failed == 0
