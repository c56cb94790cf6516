"""Draws are pure functions of their place, equal to plain integers, and uniform."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.corrupt.objectives import RandomKeys
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


def slow_mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
    return x ^ (x >> 31)


@given(
    st.lists(words64, min_size=1, max_size=5),
    st.integers(0, 8),
    st.integers(0, 40),
    st.integers(0, 2**63),
)
def test_words_of_rows_equal_plain_integers(uids, stream, index, seed):
    variants = np.arange(len(uids), dtype=np.uint16) % 2
    keys = kernel_keys(seed, "label", np.array(uids, np.uint64), variants)
    found = random_bits(keys, stream, index + 3)[:, index:]

    for row, uid in enumerate(uids):
        base = kernel_base(seed, "label", int(variants[row]))
        key = slow_mix(slow_mix(uid) ^ base)

        assert int(keys[row]) == key

        steps = [2**32 * stream + j + 1 for j in range(index, index + 3)]
        wanted = [slow_mix((key + 0x9E3779B97F4A7C15 * step) % 2**64) for step in steps]

        assert found[row].tolist() == wanted
        assert random_bits_of(base, uid, stream, index) == wanted[0]


def test_hashes_are_stable():
    """Shards and uids depend on these values for ever."""
    uid = bytes(range(16))

    assert f"{hash64('a', 1, b'b'):016x}" == "9bead1c8d3957762"
    assert f"{order_key(uid, 'heldout', 1):016x}" == "23246ae3cc4a4dc6"
    assert fraction(uid, "heldout", 1) == 0x23246AE3CC4A4DC6 / 2**64
    assert f"{sample_uid(uid, 1, 70_000, 'packed-510-sep'):016x}" == "d052576ba6312f7e"
    assert f"{kernel_base(1, 'masked_lm', 3):016x}" == "c4a2e9431787fdff"


@given(words64, st.integers(1, 2**32))
def test_parts_of_draws_equal_plain_integers(word, bound):
    assert int(mix(np.array([word], np.uint64))[0]) == slow_mix(word)
    assert int(below(np.array([word >> 32], np.uint64), bound)[0]) == (word >> 32) * bound >> 32
    assert int(reverse_bits(np.array([word >> 48], np.uint16))[0]) == int(
        f"{word >> 48:016b}"[::-1], 2
    )


def test_stratified_words_are_uniform_and_even_over_variants():
    uids = np.arange(8000, dtype=np.uint64)
    variants = [np.full(8000, variant, np.uint16) for variant in range(8, 16)]
    found = [RandomKeys(1, uids, variant).draw_stratified("label", RATES) for variant in variants]
    for column in found:
        counts = np.bincount((column >> np.uint64(28)).astype(int), minlength=16)
        assert chi_square_is_plausible(counts, [500.0] * 16, 15)

    bins = np.sort(np.stack(found) >> np.uint64(29), axis=0)

    assert (bins == np.arange(8, dtype=np.uint64)[:, None]).all()
