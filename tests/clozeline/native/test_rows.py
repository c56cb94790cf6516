"""Copies of ragged rows: the bytes of numpy, and no access outside of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from clozeline.native import rows
from clozeline.native.library import is_available, missing_note, numpy_only
from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream import padding
from clozeline.train.data.stream.row_buffer import gather

pytestmark = pytest.mark.skipif(not is_available(), reason=f"{missing_note()}")
_TYPES = st.sampled_from(["u1", "u2", "u4", "i4", "i8"])
_LENGTHS = st.lists(st.integers(0, 40), max_size=12)


def draw_values(dtype: str, size: int) -> NDArray[Any]:
    """Return values that include the smallest and the largest of the type; read-only, as those of a shard are."""
    info = np.iinfo(dtype)
    values = np.random.default_rng(size).integers(info.min, info.max, size, np.dtype(dtype), endpoint=True)
    values[: min(size, 2)] = [info.min, info.max][: min(size, 2)]
    values.flags.writeable = False
    return values


@given(_TYPES, _LENGTHS, st.randoms())
def test_gather(dtype: str, lengths: list[int], order: Any) -> None:
    offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    values, chosen = (
        draw_values(dtype, int(offsets[-1])),
        np.array(order.sample(range(len(lengths)), len(lengths)), int),
    )
    starts, sizes = offsets[:-1][chosen], np.diff(offsets)[chosen]
    strided = np.repeat(starts, 2)[::2], np.repeat(sizes, 2)[::2]
    native = rows.gather(values, *strided, int(sizes.sum()))
    with numpy_only():
        assert rows.gather(values, starts, sizes, int(sizes.sum())) is None
        expected = gather(values, starts, sizes)
    assert native is not None
    assert native.dtype == expected.values.dtype
    np.testing.assert_array_equal(native, expected.values)
    assert gather(values, starts, sizes).values.tobytes() == expected.values.tobytes()


@given(_TYPES, _LENGTHS.filter(bool), st.sampled_from(["i4", "i8"]), st.integers(-100, 2**31 - 1))
def test_padded_rows(dtype: str, lengths: list[int], wanted: str, filler: int) -> None:
    offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    column = Ragged(draw_values(dtype, int(offsets[-1])), offsets)
    native, native_lengths = padding.pad_rows(column, filler, wanted)
    with numpy_only():
        expected, expected_lengths = padding.pad_rows(column, filler, wanted)
    assert (native.dtype, native.shape) == (expected.dtype, expected.shape)
    assert native.tobytes() == expected.tobytes()
    np.testing.assert_array_equal(native_lengths, expected_lengths)


@pytest.mark.parametrize(
    ("starts", "lengths", "total"),
    [([-1], [2], 2), ([8], [3], 3), ([11], [0], 0), ([0], [-1], -1), ([2**62], [2**62], 3), ([0, 0], [4, 4], 7)],
)
def test_runs_outside_of_the_array_are_refused(starts: list[int], lengths: list[int], total: int) -> None:
    with pytest.raises(ValueError, match=r"leaves the array of 10|negative"):
        rows.gather(np.zeros(10, np.uint16), np.array(starts), np.array(lengths), total)


@pytest.mark.parametrize("offsets", [[0, 11], [-1, 3], [4, 2], [0, 6]])
def test_rows_outside_of_the_array_or_too_wide_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="a row leaves the array of 10 values, or is wider than 5"):
        rows.pad_rows(np.zeros(10, np.uint16), np.array(offsets), 5, 0, np.int64)


def test_other_types_are_left_to_numpy() -> None:
    offsets = np.array([0, 1])
    for values in (np.zeros(1, np.float32), np.zeros(1, ">i4"), np.zeros(1, np.bool_), np.zeros(4, "u2")[::2]):
        assert rows.pad_rows(values, offsets, 1, 0, np.int64) is None
    assert rows.pad_rows(np.zeros(1, "u2"), offsets, 1, 0, np.float32) is None
    assert rows.pad_rows(np.zeros(1, "u2"), offsets, 1, 2**40, np.int32) is None
    assert rows.gather(np.zeros(1, np.float16), np.zeros(1, int), np.ones(1, int), 1) is None
