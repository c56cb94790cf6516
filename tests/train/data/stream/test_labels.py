"""Labels of a micro-batch against plain loops over its rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream.labels import (
    build_label_weights,
    build_labels,
    build_next_token_labels,
    build_stored_scores,
)
from clozeline.train.data.stream.padding import pad_rows

FEW = settings(max_examples=40)


@st.composite
def rows(draw: st.DrawFn) -> list[tuple[list[int], int, list[int]]]:
    """Ids of each row, the length of its prefix, and where its documents start."""
    found = []
    for length in draw(st.lists(st.integers(1, 7), min_size=1, max_size=5)):
        ids = draw(st.lists(st.integers(1, 50), min_size=length, max_size=length))
        starts = sorted({0, *draw(st.lists(st.integers(0, length - 1), max_size=3))})
        found.append((ids, draw(st.integers(0, length)), starts))
    return found


@FEW
@given(rows(), st.booleans(), st.booleans())
def test_next_tokens_are_predicted_one_place_earlier(
    found: list[tuple[list[int], int, list[int]]], with_prefix: bool, with_documents: bool
) -> None:
    ids, lengths = pad_rows(Ragged.from_lists([row for row, _, _ in found], np.uint16), 0)
    width = ids.shape[1]
    prefix = np.array([length for _, length, _ in found]) if with_prefix else None
    marks = np.array([[int(place in starts) for place in range(width)] for _, _, starts in found])
    labels = build_next_token_labels(ids, lengths, prefix, marks if with_documents else None)
    wanted = [
        (number * width + place - 1, row[place])
        for number, (row, length, starts) in enumerate(found)
        for place in range(max(1, length if with_prefix else 1), len(row))
        if not (with_documents and place in starts)
    ]
    assert list(zip(labels["label_index"].tolist(), labels["label_ids"].tolist(), strict=True)) == wanted
    assert {tensor.dtype for tensor in labels.values()} == {torch.int64}


def test_labels_of_full_rows_belong_to_the_caller() -> None:
    ids, lengths = np.arange(6).reshape(2, 3), np.full(2, 3)
    first = build_next_token_labels(ids, lengths, None, None)
    first["label_index"].zero_()
    assert build_next_token_labels(ids, lengths, None, None)["label_index"].tolist() == [0, 1, 3, 4]


@FEW
@given(st.lists(st.sets(st.integers(1, 9)), min_size=1, max_size=5), st.data())
def test_stored_labels_keep_their_places_or_move_one_back(places: list[set[int]], data: st.DataObject) -> None:
    positions = [sorted(one) for one in places]
    ids = [[100 + place for place in one] for one in positions]
    columns = {
        "label_positions": Ragged.from_lists(positions, np.uint16),
        "label_ids": Ragged.from_lists(ids, np.uint16),
    }
    earlier = data.draw(st.lists(st.sampled_from([0, 1]), min_size=len(places), max_size=len(places)))
    for previous, shift in ((False, [0] * 9), (True, [1] * 9), (np.array(earlier), earlier)):
        labels = build_labels(columns, 10, previous)
        assert labels["label_index"].tolist() == [
            10 * row + place - shift[row] for row, one in enumerate(positions) for place in one
        ]
        assert labels["label_ids"].tolist() == [token for one in ids for token in one]


def test_a_label_at_the_first_place_cannot_be_predicted_from_before() -> None:
    columns = {name: Ragged.from_lists([[3], [0]], np.uint16) for name in ("label_positions", "label_ids")}
    build_labels(columns, 10, np.array([1, 0]))
    with pytest.raises(IntegrityError, match="a label at position 0 cannot be predicted"):
        build_labels(columns, 10, np.array([0, 1]))


@FEW
@given(st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(1, 9)), min_size=1, max_size=6))
def test_rows_without_a_weight_of_their_own_weigh_1_and_count_their_labels(found: list[tuple[int, int | None]]) -> None:
    width = 5
    index = [row * width + place for row, (count, _) in enumerate(found) for place in range(count)]
    tensors = {
        "input_ids": torch.zeros(len(found), width),
        "lengths": torch.full((len(found),), width),
        "label_index": torch.tensor(index, dtype=torch.int64),
    }
    weights = [[] if weight is None else [weight / 2] for _, weight in found]
    counts = [[] if weight is None else [weight] for _, weight in found]
    columns = {
        "label_weight": Ragged.from_lists(weights, np.float32),
        "label_count": Ragged.from_lists(counts, np.uint16),
    }
    mixed, plain = build_label_weights(columns, tensors), build_label_weights({}, tensors)
    assert mixed["label_weight"].tolist() == [
        1.0 if weight is None else weight / 2 for count, weight in found for _ in range(count)
    ]
    assert mixed["label_count"].tolist() == [count if weight is None else weight for count, weight in found]
    assert plain["label_weight"].tolist() == [1.0] * len(index)
    assert plain["label_count"].tolist() == [count for count, _ in found]


def test_stored_scores_are_rows_of_labels_or_rows_of_the_batch() -> None:
    columns = {
        "teacher_ids": Ragged.from_lists([[5, 6, 7, 8], [], [9, 4]], np.uint16),
        "teacher_weights": Ragged.from_lists([[0.5, 0.25, 1, 0], [], [0.125, 0.5]], np.float16),
    }
    weights, labels = {"row_weight": torch.ones(3)}, {"label_ids": torch.tensor([1, 2, 3])}
    by_label = build_stored_scores(columns, weights | labels)
    assert by_label["teacher_ids"].tolist() == [[5, 6], [7, 8], [9, 4]]
    assert by_label["teacher_weights"].tolist() == [[0.5, 0.25], [1, 0], [0.125, 0.5]]
    assert (by_label["teacher_ids"].dtype, by_label["teacher_weights"].dtype) == (torch.int64, torch.float32)
    one_each = {name: column.take(np.array([2, 1])) for name, column in columns.items()}
    by_row = build_stored_scores(one_each, {"row_weight": torch.ones(2)})
    assert by_row["teacher_ids"].tolist() == [[9, 4], [0, 0]]
    assert by_row["teacher_weights"].tolist() == [[0.125, 0.5], [0, 0]]
    with pytest.raises(IntegrityError, match="teacher_ids: 6 stored values for 4 labels"):
        build_stored_scores(columns, weights | {"label_ids": torch.zeros(4)})
    assert build_stored_scores({}, weights | {"label_ids": torch.zeros(0)})["teacher_ids"].shape == (0, 0)
