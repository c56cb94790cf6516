"""Values of rows, and padding before the tokens; the tests of batches see the rest."""

import doctest

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import clozeline.train.data.stream.padding
from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream.padding import (
    pad_left,
    scalar_column,
)


@settings(max_examples=40)
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
