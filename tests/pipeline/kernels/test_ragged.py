"""Weaving: frames, spans, segments and starts against plain lists."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.kernels.ragged import (
    IdSet,
    add_special_tokens,
    insert_at,
    scalars,
    shift_starts,
    span_mask,
    span_positions,
    starts_in_rows,
    trim,
)
from clozeline.pipeline.rows import Ragged, segments

LISTS = st.lists(st.lists(st.integers(10, 99), max_size=6), max_size=6)


@given(
    LISTS,
    st.none() | st.just(1),
    st.none() | st.just(2),
)
def test_framed(lists, head, tail):
    """Rows of a complete block, and of a part of one."""
    ends = ([head] if head else [], [tail] if tail else [])
    whole = Ragged.from_lists([[5, 6], *lists], np.uint16)
    for original in (Ragged.from_lists(lists, np.uint16), Ragged(whole.values, whole.offsets[1:])):
        found = add_special_tokens(original, head, tail)
        assert [found[row].tolist() for row in range(len(lists))] == [
            [*ends[0], *one, *ends[1]] for one in lists
        ]
        assert not np.shares_memory(found.values, original.values)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=6), st.integers(0, 3))
def test_spans_mark_their_values_and_no_others(gaps_and_lengths, rest):
    starts = []
    lengths = []
    wanted = []

    for gap, length in gaps_and_lengths:
        starts = [*starts, len(wanted) + gap]
        lengths = [*lengths, length]
        wanted += [False] * gap + [True] * length

    wanted += [False] * rest
    starts = np.array(starts, np.int64)
    lengths = np.array(lengths, np.int64)

    assert span_mask(len(wanted), starts, lengths).tolist() == wanted
    assert span_positions(starts, lengths).tolist() == np.flatnonzero(wanted).tolist()


def test_values_and_starts_go_where_they_are_wanted():
    assert insert_at(
        np.array([5, 6, 7]),
        np.array([0, 3]),
        np.array([8, 9]),
    ).tolist() == [
        8,
        5,
        6,
        9,
        7,
    ]

    ones = scalars(np.array([3, 4]), np.uint8)

    assert (ones.values.dtype, [ones[row].tolist() for row in range(len(ones))]) == (
        np.uint8,
        [[3], [4]],
    )

    starts = Ragged.from_lists([[0, 3], [0], [0, 1, 2]], np.uint16)

    assert shift_starts(starts, 2).values.tolist() == [0, 5, 0, 0, 3, 4]
    assert trim(starts) is starts

    for part in (starts.offsets[1:], starts.offsets[:-1]):
        found = trim(Ragged(starts.values, part))
        assert (found.offsets[0], found.offsets[-1]) == (0, len(found.values))
        assert [one.tolist() for one in map(found.__getitem__, range(2))] == [
            starts.values[first:last].tolist() for first, last in itertools.pairwise(part)
        ]


@pytest.mark.parametrize("longest", [2, 300, 3000])
@pytest.mark.parametrize(
    ("size", "count"),
    [
        (1, 0),
        (5, 3),
        (70_000, 900),
        (1 << 17, 200),
    ],
)
def test_segments(size, count, longest):
    """Short and long ones; also over the bounds of the portions that are handled at once."""
    random = np.random.RandomState(size)
    values = random.randint(0, 1000, size).astype(np.uint16)
    starts = random.randint(0, size, count).astype(np.int64)
    lengths = np.minimum(random.randint(0, longest, count), size - starts)
    wanted = [values[a : a + n] for a, n in zip(starts, lengths, strict=True)]
    found = segments(values, starts, lengths)

    assert found.dtype == np.uint16
    assert found.flags.writeable
    assert found.tolist() == np.concatenate([np.empty(0, np.uint16), *wanted]).tolist()


@pytest.mark.parametrize("length", [1, 3, 128, 513])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.int64])
def test_segments_of_one_length(length, dtype):
    """They may overlap, lie anywhere, and come from an array with gaps."""
    gaps = np.arange(4 * length + 10, dtype=dtype)[::2]
    starts = np.array([0, len(gaps) - length, 1, 1, length // 2])
    found = segments(gaps, starts, np.full(5, length))

    assert found.dtype == dtype
    assert found.flags.writeable
    assert found.tolist() == [value for a in starts for value in gaps[a : a + length].tolist()]

    for start, values in ((len(gaps) - length + 1, gaps), (0, gaps[: length - 1])):
        with pytest.raises(IndexError):
            segments(values, np.array([0, start]), np.full(2, length))


@pytest.mark.parametrize("empty", [1, 1000])
def test_segments_that_end_on_a_portion_or_behind_the_values(empty):
    """With many empty ones the mean is short."""
    values = np.arange(1 << 16, dtype=np.uint16)
    starts = np.array([0, *[5] * empty, 0, 0])
    lengths = np.array(
        [
            1 << 16,
            *[0] * empty,
            (1 << 16) - 1,
            1,
        ]
    )

    assert segments(values, starts, lengths).tolist() == [
        *values.tolist(),
        *values[:-1].tolist(),
        0,
    ]

    for length in (3, 300):
        with pytest.raises(IndexError):
            segments(
                np.zeros(2 * length),
                np.array([0, length + 1]),
                np.array([length, length]),
            )


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.data())
def test_starts_in_rows(lengths, data):
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    starts = sorted(data.draw(st.sets(st.integers(0, int(offsets[-1]) + 2))))
    found = starts_in_rows(np.array(starts, np.int64), offsets)

    for row, (first, last) in enumerate(itertools.pairwise(offsets)):
        assert found[row].tolist() == [
            0,
            *(start - first for start in starts if first < start < last),
        ]


@pytest.mark.parametrize(
    "bits",
    [
        [],
        [0],
        [0, 1, 2],
        [3, 9],
        [5, 6],
        [0, 2, 4, 6, 8, 10],
        list(range(12)),
    ],
)
@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_id_set(bits, dtype):
    bitmap = np.zeros(12, np.bool_)
    bitmap[bits] = True
    ids = IdSet(bitmap)

    for values in (
        [],
        [0],
        list(range(12)),
        [4, 7, 11],
        [1],
    ):
        array = np.array(values, dtype)
        assert ids.mask(array).tolist() == [value in bits for value in values]
        assert ids.contains_any(array) == bool(set(values) & set(bits))
