"""Ranges of hashes, many copies, and options."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clozeline.configuration.config import validate
from clozeline.pipeline.dedup.config import DedupConfig
from clozeline.pipeline.dedup.parts import (
    count_ranges,
    find_hash_bounds,
    uid_bytes,
    uid_column,
)
from tests.refusals import refused


@given(st.lists(st.binary(min_size=16, max_size=16)), st.integers(1, 9))
def test_ranges_tile_sorted_hashes_by_their_leading_bits(values, ranges):
    hashes = np.sort(uid_column(values))
    words = np.sort(np.array([int.from_bytes(value[:8], "big") for value in values], np.uint64))
    numbers = [int.from_bytes(value, "big") for value in uid_bytes(hashes)]

    for ordered, found, bits in ((hashes, numbers, 128), (words, words.tolist(), 64)):
        bounds = find_hash_bounds(ordered, ranges)
        assert (bounds[0], bounds[-1], len(bounds)) == (0, len(values), ranges + 1)
        for index, (first, last) in enumerate(pairwise(bounds)):
            assert all(number * ranges >> bits == index for number in found[first:last])


def test_a_stage_that_does_nothing_is_refused():
    with refused("remove the key"):
        validate(DedupConfig, {"exact": None, "near": None}, "test")


def test_ranges_are_as_many_as_shards_up_to_256_then_one_for_4_shards():
    assert [count_ranges(n) for n in (1, 256, 1024, 1025, 8192)] == [1, 256, 256, 257, 2048]
