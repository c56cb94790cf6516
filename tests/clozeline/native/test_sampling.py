"""Subsets, orders and words of rows: the bits of numpy, and no access outside of an array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.native import sampling as native
from clozeline.native.library import is_available, missing_note, numpy_only
from clozeline.pipeline.kernels import sampling, whole_words
from clozeline.pipeline.kernels.distributions import exponentials, geometric_thresholds, reciprocal_thresholds
from clozeline.pipeline.kernels.ragged import IdSet
from clozeline.pipeline.kernels.sampling import offsets_of
from clozeline.pipeline.rows import Ragged
from clozeline.seeding import LENGTHS, ORDERS, POSITIONS, SLOTS, mix, random_bits

pytestmark = pytest.mark.skipif(not is_available(), reason=f"{missing_note()}")
SIZES = st.lists(st.one_of(st.integers(0, 12), st.integers(0, 700)), max_size=8)
EQUAL = st.builds(lambda size, rows: [size] * rows, st.integers(0, 600), st.integers(1, 6))
STREAMS = st.sampled_from([POSITIONS, SLOTS, ORDERS])
SEEDS = st.integers(0, 2**40)
WORDS, SPECIALS = 40, 4


def keys_of(rows: int, seed: int) -> np.ndarray:
    return mix(np.arange(seed, seed + rows, dtype=np.uint64))


def counts_of(sizes: np.ndarray, share: float) -> np.ndarray:
    """Return counts from nothing to everything; rows differ a little in their share."""
    return np.clip(np.round(share * sizes).astype(np.int64) + np.arange(len(sizes)) % 3 - 1, 0, sizes)


def same(work: Callable[[], Any]) -> Any:
    """Return the result of both forms, after comparing types and bytes."""
    compiled = work()
    with numpy_only():
        expected = work()
    for ours, theirs in zip(astuple(compiled), astuple(expected), strict=True):
        assert (ours.dtype, ours.tobytes()) == (theirs.dtype, theirs.tobytes())
    return compiled


@given(SIZES | EQUAL, st.floats(0, 1), STREAMS, SEEDS)
def test_subsets(sizes: list[int], share: float, stream: int, seed: int) -> None:
    candidates = np.array(sizes, np.int64)
    counts, keys = counts_of(candidates, share), keys_of(len(sizes), seed)
    assert native.choose(keys, candidates, counts, stream) is not None
    same(lambda: sampling.choose(keys, candidates, counts, stream))


@given(SIZES | EQUAL, st.floats(0, 1), STREAMS, SEEDS, st.sampled_from(["u2", "u4"]), st.floats(0, 1), st.booleans())
def test_weighted_subsets(
    sizes: list[int], share: float, stream: int, seed: int, dtype: str, exponent: float, padded: bool
) -> None:
    """Weights are equal, as different as counts of a corpus, or so different that some ids always come first."""
    candidates = np.array(sizes, np.int64)
    random = np.random.default_rng(seed)
    table = random.integers(1, 10**9, 50).astype(np.float64) ** exponent * [1.0, 1e-200][padded and seed % 2]
    table[::7] *= [1.0, 1e200][seed % 3 == 0]
    values = random.integers(0, 50, candidates.sum() + padded).astype(dtype)
    ids = Ragged(values, offsets_of(candidates) + padded)
    counts, keys = counts_of(candidates, share), keys_of(len(sizes), seed)
    assert native.choose_weighted(keys, candidates, counts, stream, values[padded:], table) is not None
    same(lambda: sampling.choose_weighted(keys, ids, table, counts, stream))


def test_times_have_the_same_last_bits() -> None:
    """With 1 / time as the mean, all scaled times round to 1 or next to it, so the last bit of each decides."""
    keys, sizes = keys_of(1, 7), np.array([60_000])
    bits = random_bits(keys, POSITIONS, 60_000)[0]
    table, ids = 1 / exponentials(bits >> np.uint64(16)), np.arange(60_000, dtype=np.uint16)
    chosen = same(lambda: sampling.choose_weighted(keys, Ragged(ids, np.array([0, 60_000])), table, np.array([2_000])))
    assert chosen.values[-1] > 2_000
    assert native.choose_weighted(keys, sizes, np.array([2_000]), POSITIONS, ids, table) is not None


@given(SIZES | EQUAL, st.sampled_from([-1, 0, 1, 3, 40, 60_000]), STREAMS, SEEDS)
def test_orders(sizes: list[int], distance: int, stream: int, seed: int) -> None:
    counts, keys = np.array(sizes, np.int64), keys_of(len(sizes), seed)
    assert native.permute(keys, counts, stream, distance) is not None
    if distance < 0:
        same(lambda: sampling.permute(keys, counts, stream))
        same(lambda: sampling.reorder(keys, counts, stream))
    else:
        same(lambda: sampling.permute_near(keys, counts, distance, stream))


@pytest.mark.parametrize("count", [0, 1, 9_800, 65_535])
def test_the_longest_rows(count: int) -> None:
    keys, sizes = keys_of(2, 5), np.array([65_535, 3])
    ids = Ragged(np.arange(65_538, dtype=np.uint32) % 1000, offsets_of(sizes))
    counts, table = np.array([count, 2]), np.sqrt(np.arange(1, 1001))
    same(lambda: sampling.choose(keys, sizes, counts))
    same(lambda: sampling.choose_weighted(keys, ids, table, counts))
    same(lambda: sampling.permute(keys, counts, ORDERS))
    same(lambda: sampling.permute_near(keys, np.array([65_525, 3]), 10, ORDERS))


@st.composite
def word_rows(draw: st.DrawFn) -> tuple[Ragged, np.ndarray]:
    """Rows, none empty, of ids of which some open words and the lowest are special, seldom, often or never."""
    sizes = draw(st.lists(st.one_of(st.integers(1, 6), st.integers(1, 300)), min_size=1, max_size=6))
    lowest, opening = draw(st.sampled_from([0, SPECIALS - 1, SPECIALS])), draw(st.sampled_from([0.0, 0.3, 1.0]))
    random = np.random.default_rng(draw(SEEDS))
    values = random.integers(lowest, WORDS, sum(sizes)).astype(draw(st.sampled_from(["u2", "u4"])))
    return Ragged(values, offsets_of(np.array(sizes))), random.random(len(values)) < opening


@given(word_rows(), st.floats(0, 1), st.sampled_from([None, 0.2, 1.0, 3]), SEEDS)
def test_words(rows: tuple[Ragged, np.ndarray], share: float, spans: float | None, seed: int) -> None:
    ids, opens = rows
    special = IdSet(np.arange(WORDS) < SPECIALS)
    assert native.find_words(opens, special.mask(ids.values), ids.offsets) is not None
    words = same(lambda: whole_words.find_words(ids, opens.copy(), special))
    thresholds = None
    if spans is not None:
        thresholds = reciprocal_thresholds(3) if spans == 3 else geometric_thresholds(int(spans * 10**6), 10)
    budgets, keys = counts_of(words.tokens, share), keys_of(len(ids), seed)
    streams = POSITIONS, LENGTHS
    arrays = words.offsets, words.lengths, words.run_ends
    assert native.take_words(keys, streams, *arrays, budgets, thresholds) is not None
    taken = whole_words.take_words(keys, words, budgets, thresholds)
    with numpy_only():
        assert taken.tobytes() == whole_words.take_words(keys, words, budgets, thresholds).tobytes()


@pytest.mark.parametrize(
    ("sizes", "counts"), [([3], [4]), ([3], [-1]), ([-1], [-1]), ([65_537], [1]), ([3, 3], [-1, 1]), ([3], [1, 1])]
)
def test_sizes_that_do_not_fit_are_left_to_numpy(sizes: list[int], counts: list[int]) -> None:
    keys, candidates, chosen = keys_of(len(sizes), 0), np.array(sizes), np.array(counts)
    ids, table = np.zeros(max(0, sum(sizes)), np.uint16), np.ones(1)
    assert native.choose(keys, candidates, chosen, POSITIONS) is None
    assert native.choose_weighted(keys, candidates, chosen, POSITIONS, ids, table) is None
    if min(sizes) < 0 or max(sizes) > 65_536:
        assert native.permute(keys, candidates, ORDERS) is None
    assert native.permute(keys, np.full(len(keys), 60_000), ORDERS, 5_537) is None


def test_ids_outside_of_the_table_are_left_to_numpy() -> None:
    keys, ids = keys_of(1, 0), np.array([0, 1, 2], np.uint16)
    sizes, counts = np.array([3]), np.array([1])
    for values, table in ((ids, np.ones(2)), (ids[:2], np.ones(3)), (ids.astype(np.int64), np.ones(3))):
        assert native.choose_weighted(keys, sizes, counts, POSITIONS, values, table) is None
    with pytest.raises(IndexError):
        sampling.choose_weighted(keys, Ragged(ids, np.array([0, 3])), np.ones(2), counts)


@pytest.mark.parametrize("offsets", [[0, 4], [1, 3], [0, 4, 3], [0, 2]])
def test_offsets_that_do_not_fit_are_left_to_numpy(offsets: list[int]) -> None:
    keys, flags, words = keys_of(len(offsets) - 1, 0), np.ones(3, np.bool_), np.full(3, 3)
    bounds, budgets = np.array(offsets), np.ones(len(offsets) - 1, np.int64)
    assert native.find_words(flags, ~flags, bounds) is None
    assert native.take_words(keys, (POSITIONS, LENGTHS), bounds, words, words, budgets, None) is None
