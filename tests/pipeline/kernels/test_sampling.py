"""Kernels against slow references that use the same words, and against theory."""

import numpy as np

from clozeline.pipeline.kernels.sampling import (
    choose,
    choose_weighted,
    list_indices,
    offsets_of,
    reorder,
)
from clozeline.pipeline.rows import Ragged
from clozeline.seeding import ORDERS, random_bits

KEYS = random_bits(np.array([7], np.uint64), 0, 4000)[0]


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


def test_reorder_swaps_after_64_identities(monkeypatch):
    def identity(keys, counts, stream):
        return Ragged(list_indices(counts).astype(np.uint16), offsets_of(counts))

    monkeypatch.setattr("clozeline.pipeline.kernels.sampling.permute", identity)
    orders = reorder(KEYS[:3], np.array([1, 4, 2]), ORDERS)

    assert [orders[row].tolist() for row in range(3)] == [[0], [1, 0, 2, 3], [1, 0]]
