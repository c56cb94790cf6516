"""Kernels against slow references that use the same words, and against theory."""

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.kernels.sampling import (
    choose,
    choose_weighted,
    compose,
    draw_replacements,
    exclusive_cumsum,
    list_indices,
    offsets_of,
    reorder,
    rows_of,
)
from clozeline.pipeline.rows import Ragged
from clozeline.seeding import ORDERS, POSITIONS, random_bits

KEYS = random_bits(np.array([7], np.uint64), 0, 4000)[0]


def word(key, stream, index):
    return int(random_bits(np.array([key]), stream, index + 1)[0, index])


def numbered(key, stream, size, start=0):
    """The indices in the order of their words, by a plain sort."""
    return sorted(range(size), key=lambda index: (word(key, stream, start + index) >> 16, index))


def test_choose_without_rows_and_everything():
    empty = np.empty(0, np.int64)

    assert len(choose(KEYS[:0], empty, empty)) == 0
    assert choose(KEYS[:1], np.array([65535]), np.array([65535]))[0].tolist() == list(range(65535))

    means = np.array([5.0, 1e9, 1.0])
    no_ids = Ragged(empty.astype(np.uint16), np.zeros(1, np.int64))

    assert len(choose_weighted(KEYS[:0], no_ids, means, empty)) == 0

    ids = Ragged(np.arange(3, dtype=np.uint32), np.array([0, 0, 3]))

    assert choose_weighted(
        KEYS[:2],
        ids,
        means,
        np.array([0, 3]),
    ).values.tolist() == [0, 1, 2]


@pytest.mark.parametrize("equal", [True, False], ids=["equal rows", "ragged rows"])
def test_choose_weighted_equals_a_plain_sort_of_times(equal):
    candidates = (
        np.full(40, 70) if equal else np.array([(17 * row * row + row) % 91 for row in range(60)])
    )
    means = (1 + np.arange(1009)) ** 0.5
    ids = Ragged(
        (np.arange(candidates.sum()) * 7919 % 1009).astype(np.uint16), offsets_of(candidates)
    )
    counts = candidates * 7 // 20
    chosen = choose_weighted(KEYS[: len(counts)], ids, means, counts)

    for row, (size, number) in enumerate(zip(candidates.tolist(), counts.tolist(), strict=True)):
        uniform = [
            ((word(KEYS[row], POSITIONS, index) >> 16) + 0.5) / 2**48 for index in range(size)
        ]
        times = [-log(u) * mean for u, mean in zip(uniform, means[ids[row]].tolist(), strict=True)]
        assert chosen[row].tolist() == sorted(sorted(range(size), key=times.__getitem__)[:number])


def test_reorder_takes_the_first_block_of_words_that_is_not_the_identity():
    counts = np.array([0, 1, 2, 3] * 100)
    orders = reorder(KEYS[:400], counts, ORDERS)

    for row, size in enumerate(counts.tolist()):
        blocks = (numbered(KEYS[row], ORDERS, size, start=attempt * size) for attempt in range(64))
        wanted = (
            list(range(size)) if size < 2 else next(b for b in blocks if b != list(range(size)))
        )
        assert orders[row].tolist() == wanted


def test_reorder_swaps_after_64_identities(monkeypatch):
    def identity(keys, counts, stream):
        return Ragged(list_indices(counts).astype(np.uint16), offsets_of(counts))

    monkeypatch.setattr("clozeline.pipeline.kernels.sampling.permute", identity)
    orders = reorder(KEYS[:3], np.array([1, 4, 2]), ORDERS)

    assert [orders[row].tolist() for row in range(3)] == [[0], [1, 0, 2, 3], [1, 0]]


@pytest.mark.parametrize(
    ("mask_ppm", "random_ppm", "wanted"), [(1_000_000, 0, 3), (0, 0, 9), (0, 1_000_000, 5)]
)
def test_roles_at_the_ends(mask_ppm, random_ppm, wanted):
    original = Ragged(np.full(1000, 9, np.uint16), np.arange(0, 1001, 5))
    options = {
        "mask": 3,
        "replaceable": np.array([5]),
        "mask_ppm": mask_ppm,
        "random_ppm": random_ppm,
    }

    assert set(draw_replacements(KEYS[:200], original, **options).tolist()) == {wanted}


def test_compositions_of_a_total_are_equally_likely():
    drawn = (
        compose(
            KEYS[:3000],
            np.full(3000, 4),
            np.full(3000, 2),
        )
        .values.reshape(-1, 2)
        .tolist()
    )

    assert all(900 < drawn.count(parts) < 1100 for parts in ([1, 3], [2, 2], [3, 1]))
    assert compose(
        KEYS[:3],
        np.array([3, 0, 7]),
        np.array([3, 0, 1]),
    ).values.tolist() == [
        1,
        1,
        1,
        7,
    ]


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=6))
def test_indices_of_ragged_lists(lists):
    ragged = Ragged.from_lists(lists, np.int64)

    assert exclusive_cumsum(ragged.values, ragged.offsets).tolist() == [
        sum(one[:i]) for one in lists for i in range(len(one))
    ]
    assert list_indices(ragged.lengths).tolist() == [i for one in lists for i in range(len(one))]
    assert rows_of(ragged).tolist() == [row for row, one in enumerate(lists) for _ in one]
