"""Signatures and band keys: the bits of their numpy forms."""

import numpy as np
import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from clozeline.native import minhash
from clozeline.native.library import is_available, missing_note, numpy_only
from clozeline.pipeline.dedup.near import Sketch

pytestmark = pytest.mark.skipif(not is_available(), reason=f"{missing_note()}")
_TEXTS = st.text("aZ_09 .-=*<\t\n\x1c\x85é\u00a0漢\u0301≤’", max_size=80) | st.text(max_size=60)


@given(
    st.lists(_TEXTS, max_size=4),
    st.integers(1, 45),
    st.integers(1, 3),
    st.integers(1, 9),
)
@example(["", " ", "a b", "x" * 300, "word " * 1100], 5, 4, 5)
def test_signatures(texts, ngram, bands, rows):
    form = Sketch(ngram, bands, rows)
    native = form.signatures(texts)
    with numpy_only():
        np.testing.assert_array_equal(native, form.signatures(texts))
    assert native.shape == (len(texts), bands * rows)

    with pytest.raises(ValueError, match="as many offsets as factors"):
        minhash.signatures([], 1, np.zeros(2, np.uint64), np.zeros(1, np.uint64))


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
