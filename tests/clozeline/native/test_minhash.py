"""Word hashes, shingles, minima and band keys: the bits of their Python and numpy forms."""

import numpy as np
import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from clozeline.native import minhash
from clozeline.native.library import is_available, missing_note
from clozeline.pipeline.text.normal_form import match_words
from clozeline.pipeline.text.word_hashes import WordHashes, hash_ngrams
from clozeline.seeding import mix

pytestmark = pytest.mark.skipif(not is_available(), reason=f"{missing_note()}")
_NUMBERS = st.integers(0, 2**64 - 1)
_TEXTS = st.text("aZ_09 .\t\n\x1c\x85é\u00a0漢\u0301’", max_size=80) | st.text(max_size=60)


def same_words(text):
    """Compare with the words of the match form, hashed one by one.

    True if Python was not asked for all of them.
    """
    native = minhash.word_hashes(text, WordHashes().__getitem__)
    if native is not None:
        assert native.tolist() == [
            xxhash.xxh3_64_intdigest(word.encode()) for word in match_words(text)
        ]
        assert native.dtype == np.uint64

    return native is not None


@given(_TEXTS)
@example("")
@example(" ")
@example("a1b22c 333 _4_\x1fA’s")
def test_word_hashes_are_those_of_the_match_form(text):
    assert same_words(f"{text} {'plain words of a text ' * 80}{text}")
    same_words(text)


@given(st.lists(_NUMBERS, min_size=1, max_size=40), st.integers(1, 45))
def test_shingles(words, ngram):
    hashes = np.array(words, np.uint64)
    native = minhash.shingles(hashes, ngram)

    if ngram > len(words):
        assert native is None
    else:
        np.testing.assert_array_equal(native, mix(hash_ngrams(hashes, ngram)))
        np.testing.assert_array_equal(minhash.shingles(np.repeat(hashes, 2)[::2], ngram), native)


@given(st.data(), st.integers(0, 1100), st.integers(0, 40))
def test_minima(data, values, functions):
    draw = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    edges = np.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    shingles, factors, offsets = (
        np.where(
            draw.random(size) < 0.2,
            draw.choice(edges, size),
            draw.integers(0, 2**64, size, np.uint64),
        )
        for size in (values, functions, functions)
    )

    expected = np.full(functions, 2**64 - 1, np.uint64)
    for value in shingles:
        np.minimum(expected, value * factors + offsets, out=expected)

    np.testing.assert_array_equal(minhash.minima(shingles, factors, offsets), expected)

    with pytest.raises(ValueError, match="as many offsets as factors"):
        minhash.minima(shingles, np.zeros(2, np.uint64), np.zeros(1, np.uint64))


@given(
    st.integers(0, 3),
    st.integers(1, 5),
    st.integers(1, 18),
    st.integers(0, 2**32),
)
def test_band_keys(documents, bands, rows, seed):
    signatures = np.random.default_rng(seed).integers(
        0, 2**64, (documents, bands * rows), np.uint64
    )
    keys = minhash.band_keys(signatures, bands, rows)
    if rows > 16:
        assert keys is None
        return

    parts = signatures.reshape(documents, bands, rows)
    expected = [
        [xxhash.xxh3_64_intdigest(part.tobytes(), seed=b) for b, part in enumerate(row)]
        for row in parts
    ]

    assert keys.tolist() == expected
    assert keys.shape == (documents, bands)

    with pytest.raises(ValueError, match="expected signatures of"):
        minhash.band_keys(np.zeros((1, bands * rows + 1), np.uint64), bands, rows)
