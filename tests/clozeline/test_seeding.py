"""Draws are pure functions of their place, equal to plain integers, and uniform."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.corrupt.objectives import Draws
from clozeline.seeding import (
    RATES,
    below,
    fraction,
    hash64,
    kernel_base,
    kernel_keys,
    mix,
    order_key,
    random_bits,
    random_bits_of,
    reverse_bits,
    sample_uid,
)
from tests.pipeline.laws import chi_square_is_plausible

words64 = st.integers(0, 2**64 - 1)


def slow_mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
    return x ^ (x >> 31)


@given(st.lists(words64, min_size=1, max_size=5), st.integers(0, 8), st.integers(0, 40), st.integers(0, 2**63))
def test_words_of_rows_equal_plain_integers(uids: list[int], stream: int, index: int, seed: int) -> None:
    variants = np.arange(len(uids), dtype=np.uint16) % 2
    keys = kernel_keys(seed, "label", np.array(uids, np.uint64), variants)
    found = random_bits(keys, stream, 3, start=index)
    for row, uid in enumerate(uids):
        base = kernel_base(seed, "label", int(variants[row]))
        key = slow_mix(slow_mix(uid) ^ base)
        assert int(keys[row]) == key
        wanted = [
            slow_mix((key + 0x9E3779B97F4A7C15 * (2**32 * stream + j + 1)) % 2**64) for j in range(index, index + 3)
        ]
        assert found[row].tolist() == wanted
        assert random_bits_of(base, uid, stream, index) == wanted[0]


@given(words64)
def test_mix_is_the_splitmix_finaliser(x: int) -> None:
    assert int(mix(np.array([x], np.uint64))[0]) == slow_mix(x)


def test_hashes_are_stable() -> None:
    """Shards and uids depend on these values for ever."""
    uid = bytes(range(16))
    assert f"{hash64('a', 1, b'b'):016x}" == "9bead1c8d3957762"
    assert f"{order_key(uid, 'heldout', 1):016x}" == "23246ae3cc4a4dc6"
    assert fraction(uid, "heldout", 1) == 0x23246AE3CC4A4DC6 / 2**64
    assert f"{sample_uid(uid, 1, 70_000, 'packed-510-sep'):016x}" == "d052576ba6312f7e"
    assert f"{kernel_base(1, 'masked_lm', 3):016x}" == "c4a2e9431787fdff"


def test_parts_of_a_hash_do_not_run_together() -> None:
    assert hash64("ab", "c") != hash64("a", "bc")
    assert hash64(1) == hash64(struct.pack("<Q", 1)), "an integer is its 8 bytes"


@given(st.integers(0, 2**32 - 1), st.integers(1, 2**32))
def test_below_scales_a_word(word: int, bound: int) -> None:
    assert int(below(np.array([word], np.uint64), bound)[0]) == word * bound >> 32


@given(st.integers(0, 65_535))
def test_reversed_bits(number: int) -> None:
    assert int(reverse_bits(np.array([number], np.uint16))[0]) == int(f"{number:016b}"[::-1], 2)


def test_stratified_words_are_uniform_and_even_over_variants() -> None:
    uids = np.arange(8000, dtype=np.uint64)
    found = [
        Draws(1, uids, np.full(8000, variant, np.uint16)).draw_stratified("label", RATES) for variant in range(8, 16)
    ]
    for column in found:
        assert chi_square_is_plausible(
            np.bincount((column >> np.uint64(28)).astype(int), minlength=16), [500.0] * 16, 15
        )
    bins = np.sort(np.stack(found) >> np.uint64(29), axis=0)
    assert (bins == np.arange(8, dtype=np.uint64)[:, None]).all()
