"""Features of masked rows: the tokens that may be chosen, what is hidden where, and putting the labels back."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.corrupt.objectives._masked_rows import (
    choose_tokens,
    mask_tokens,
    maskable_tokens,
    restore_labels,
)
from clozeline.pipeline.kernels.ragged import IdSet
from clozeline.pipeline.rows import Ragged
from clozeline.seeding import POSITIONS
from tests.pipeline.corrupt.objectives.runner import example_of
from tests.pipeline.word_cases import smallest

SPECIAL = IdSet(np.arange(30) < 10)
ROWS = st.lists(st.lists(st.integers(5, 29), max_size=12), min_size=1, max_size=8)
PLAIN = st.lists(st.lists(st.integers(10, 29), max_size=12), min_size=1, max_size=8)


@settings(max_examples=40)
@given(ROWS | PLAIN)
def test_maskable_tokens_are_all_but_the_special_ones(rows):
    places, bounds = maskable_tokens(Ragged.from_lists(rows, np.uint16), SPECIAL)
    flat = [token for row in rows for token in row]
    found = list(range(len(flat))) if places is None else places.tolist()
    assert found == [place for place, token in enumerate(flat) if token >= 10]
    assert np.diff(bounds).tolist() == [sum(token >= 10 for token in row) for row in rows]


@settings(max_examples=40)
@given(ROWS | PLAIN, st.integers(0, 100), st.integers(0, 2**32))
def test_chosen_tokens_have_the_smallest_words(rows, percent, seed):
    keys = np.arange(1, 1 + len(rows), dtype=np.uint64) * np.uint64(2 * seed + 1)
    chosen = choose_tokens(keys, Ragged.from_lists(rows, np.uint16), SPECIAL, lambda sizes: sizes * percent // 100)
    first = 0
    for key, row, found in zip(keys, rows, [chosen[n] for n in range(len(rows))], strict=True):
        places = [first + place for place, token in enumerate(row) if token >= 10]
        wanted = smallest(key, POSITIONS, len(places), len(places) * percent // 100)
        assert found.tolist() == sorted(places[index] for index in wanted)
        first += len(row)


@settings(max_examples=40)
@given(st.data())
def test_masking_and_putting_back_are_inverse(data):
    lists = data.draw(st.lists(st.lists(st.integers(0, 29), min_size=1, max_size=9), min_size=1, max_size=5))
    first = np.cumsum([0, *map(len, lists)]).tolist()
    picked = [sorted(data.draw(st.sets(st.integers(0, len(one) - 1), min_size=1))) for one in lists]
    flat = [[start + place for place in places] for start, places in zip(first, picked, strict=False)]
    columns = mask_tokens(
        Ragged.from_lists(lists, np.uint16), Ragged.from_lists(flat, np.int64), lambda original: original.values + 100
    )
    assert [columns["label_positions"][row].tolist() for row in range(len(lists))] == picked
    for row, (ids, places) in enumerate(zip(lists, picked, strict=True)):
        hidden = columns["input_ids"][row].tolist()
        assert hidden == [token + 100 * (place in places) for place, token in enumerate(ids)]
        example = example_of(**{name: column[row].tolist() for name, column in columns.items()})
        assert restore_labels(example).tolist() == ids
        assert example["input_ids"].tolist() == hidden, "the example stays as it is"
