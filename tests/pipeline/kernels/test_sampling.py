"""Kernels against slow references that use the same words, and against theory."""

from itertools import pairwise
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.kernels.sampling import (
    choose,
    choose_gaps,
    choose_weighted,
    compose,
    draw,
    draw_replacements,
    exclusive_cumsum,
    list_indices,
    offsets_of,
    permute,
    reorder,
    rows_of,
    skip_bits,
)
from clozeline.pipeline.rows import Ragged
from clozeline.seeding import LENGTHS, ORDERS, POSITIONS, ROLES, SLOTS, random_bits
from tests.pipeline.laws import within_sigmas

KEYS = random_bits(np.array([7], np.uint64), 0, 4000)[0]


def word(key, stream, index):
    return int(random_bits(np.array([key]), stream, 1, index)[0, 0])


def numbered(key, stream, size, start=0):
    """The indices in the order of their words, by a plain sort."""
    return sorted(range(size), key=lambda index: (word(key, stream, start + index) >> 16, index))


def sizes(most, rows=60):
    return np.array([(17 * row * row + row) % (most + 1) for row in range(rows)])


def test_choose_equals_a_plain_sort():
    candidates = sizes(90)
    counts = (candidates * 7) // 20
    chosen = choose(KEYS[: len(counts)], candidates, counts)
    assert chosen.values.dtype == np.uint16
    for row, (size, most) in enumerate(zip(candidates, counts, strict=True)):
        assert chosen[row].tolist() == sorted(numbered(KEYS[row], POSITIONS, size)[:most])


@pytest.mark.parametrize(("size", "most"), [(1, 0), (1, 1), (5, 5), (40, 6), (568, 85)])
def test_choose_of_equal_rows_equals_choose_of_each(size, most):
    rows = 200
    together = choose(KEYS[:rows], np.full(rows, size), np.full(rows, most), SLOTS)
    for row in range(0, rows, 23):
        alone = choose(KEYS[row : row + 1], np.array([size]), np.array([most]), SLOTS)
        assert together[row].tolist() == alone[0].tolist() == sorted(numbered(KEYS[row], SLOTS, size)[:most])


def test_choose_without_rows_and_everything():
    empty = np.empty(0, np.int64)
    assert len(choose(KEYS[:0], empty, empty)) == 0
    assert choose(KEYS[:1], np.array([65535]), np.array([65535]))[0].tolist() == list(range(65535))
    means, no_ids = np.array([5.0, 1e9, 1.0]), Ragged(empty.astype(np.uint16), np.zeros(1, np.int64))
    assert len(choose_weighted(KEYS[:0], no_ids, means, empty)) == 0
    ids = Ragged(np.arange(3, dtype=np.uint32), np.array([0, 0, 3]))
    assert choose_weighted(KEYS[:2], ids, means, np.array([0, 3])).values.tolist() == [0, 1, 2]


@pytest.mark.parametrize("equal", [True, False], ids=["equal rows", "ragged rows"])
def test_choose_weighted_equals_a_plain_sort_of_times(equal):
    candidates = np.full(40, 70) if equal else sizes(90)
    means = (1 + np.arange(1009)) ** 0.5
    ids = Ragged((np.arange(candidates.sum()) * 7919 % 1009).astype(np.uint16), offsets_of(candidates))
    counts = candidates * 7 // 20
    chosen = choose_weighted(KEYS[: len(counts)], ids, means, counts, SLOTS)
    for row, (size, number) in enumerate(zip(candidates.tolist(), counts.tolist(), strict=True)):
        uniform = [((word(KEYS[row], SLOTS, index) >> 16) + 0.5) / 2**48 for index in range(size)]
        times = [-log(u) * mean for u, mean in zip(uniform, means[ids[row]].tolist(), strict=True)]
        assert chosen[row].tolist() == sorted(sorted(range(size), key=times.__getitem__)[:number])


def test_reorder_takes_the_first_block_of_words_that_is_not_the_identity():
    counts = np.array([0, 1, 2, 3] * 100)
    orders = reorder(KEYS[:400], counts, ORDERS)
    for row, size in enumerate(counts.tolist()):
        blocks = (numbered(KEYS[row], ORDERS, size, start=attempt * size) for attempt in range(64))
        wanted = list(range(size)) if size < 2 else next(b for b in blocks if b != list(range(size)))
        assert orders[row].tolist() == wanted


def test_reorder_swaps_after_64_identities(monkeypatch):
    def identity(keys, counts, stream):
        return Ragged(list_indices(counts).astype(np.uint16), offsets_of(counts))

    monkeypatch.setattr("clozeline.pipeline.kernels.sampling.permute", identity)
    orders = reorder(KEYS[:3], np.array([1, 4, 2]), ORDERS)
    assert [orders[row].tolist() for row in range(3)] == [[0], [1, 0, 2, 3], [1, 0]]


def test_compose_equals_cut_points():
    totals = sizes(40)
    parts = np.minimum(totals, 1 + totals // 4)
    found = compose(KEYS[: len(totals)], totals, parts)
    for row, (total, number) in enumerate(zip(totals.tolist(), parts.tolist(), strict=True)):
        if number == 0:
            assert len(found[row]) == 0
            continue
        cuts = sorted(numbered(KEYS[row], LENGTHS, total - 1)[: number - 1])
        bounds = [0, *(cut + 1 for cut in cuts), total]
        assert found[row].tolist() == [b - a for a, b in pairwise(bounds)]


def test_orders_and_gaps_equal_a_plain_sort():
    counts = sizes(30)
    orders = permute(KEYS[: len(counts)], counts, ORDERS)
    for row, size in enumerate(counts):
        assert orders[row].tolist() == numbered(KEYS[row], ORDERS, size)
    kept = np.arange(40)
    gaps = choose_gaps(KEYS[:40], kept, np.minimum(kept + 1, 5))
    for row in range(40):
        assert gaps[row].tolist() == sorted(numbered(KEYS[row], SLOTS, row + 1)[: min(row + 1, 5)])


def test_roles_equal_a_plain_loop_and_their_shares():
    original = Ragged(np.arange(100_000, dtype=np.uint32) % 97 + 1000, np.arange(0, 100_001, 25))
    replaceable = np.arange(500, 900)
    found = draw_replacements(KEYS, original, mask=3, replaceable=replaceable, mask_ppm=800_000, random_ppm=100_000)
    for position in range(0, 100_000, 997):
        drawn = word(KEYS[position // 25], ROLES, position % 25)
        role = ((drawn >> 32) * 1_000_000) >> 32
        random = int(replaceable[((drawn & 0xFFFFFFFF) * 400) >> 32])
        assert found[position] == (3 if role < 800_000 else random if role < 900_000 else original.values[position])
    assert found.dtype == np.uint32
    assert within_sigmas(int((found == 3).sum()), 100_000, 0.8)
    assert within_sigmas(int(((found >= 500) & (found < 900)).sum()), 100_000, 0.1)
    assert within_sigmas(int((found == original.values).sum()), 100_000, 0.1)


@pytest.mark.parametrize(("mask_ppm", "random_ppm", "wanted"), [(1_000_000, 0, 3), (0, 0, 9), (0, 1_000_000, 5)])
def test_roles_at_the_ends(mask_ppm, random_ppm, wanted):
    original = Ragged(np.full(1000, 9, np.uint16), np.arange(0, 1001, 5))
    options = {"mask": 3, "replaceable": np.array([5]), "mask_ppm": mask_ppm, "random_ppm": random_ppm}
    assert set(draw_replacements(KEYS[:200], original, **options).tolist()) == {wanted}


def test_draw_and_skip_words_are_the_stream_of_each_key():
    counts = np.array([3, 0, 5])
    flat = Ragged(draw(KEYS[:3], LENGTHS, counts), offsets_of(counts))
    for row in range(3):
        assert flat[row].tolist() == [word(KEYS[row], LENGTHS, index) for index in range(counts[row])]
    later = draw(skip_bits(KEYS[:3], np.array([10, 10, 10])), LENGTHS, np.ones(3, np.int64))
    assert later.tolist() == [word(KEYS[row], LENGTHS, 10) for row in range(3)]


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=6))
def test_indices_of_ragged_lists(lists):
    ragged = Ragged.from_lists(lists, np.int64)
    assert exclusive_cumsum(ragged.values, ragged.offsets).tolist() == [
        sum(one[:i]) for one in lists for i in range(len(one))
    ]
    assert list_indices(ragged.lengths).tolist() == [i for one in lists for i in range(len(one))]
    assert rows_of(ragged).tolist() == [row for row, one in enumerate(lists) for _ in one]
