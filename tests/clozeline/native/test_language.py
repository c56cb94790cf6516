"""The walk of an automaton: the features of a loop in Python, also where parts of a text are walked at once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.native.language import count_features
from clozeline.native.library import is_available, missing_note

pytestmark = pytest.mark.skipif(not is_available(), reason=f"{missing_note()}")
LONGEST = 3
_SUFFIXES = [b"", *(bytes(s) for s in ((97,), (98,), (97, 97), (97, 98), (98, 97, 97), (97, 98, 98)))]


def automaton() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the automaton of the longest known suffix, built from its definition; every state is a known n-gram."""
    closed = sorted({suffix[:end] for suffix in _SUFFIXES for end in range(len(suffix) + 1)}, key=len)
    following = np.zeros((len(closed), 256), np.uint32)
    for state, known in enumerate(closed):
        for byte in range(256):
            seen = known + bytes([byte])
            following[state, byte] = next(closed.index(seen[at:]) for at in range(len(seen) + 1) if seen[at:] in closed)
    outputs = np.array([7 * n if known in _SUFFIXES[1:] else -1 for n, known in enumerate(closed)], np.int32)
    return following.reshape(-1), np.arange(len(closed), dtype=np.uint32) << np.uint32(8), outputs


FOLLOWING, ROWS, OUTPUTS = automaton()


@given(st.text("abc", max_size=120).map(str.encode) | st.binary(max_size=90))
def test_features_are_those_of_a_loop(text: bytes) -> None:
    state, seen = 0, []
    for byte in text:
        state = int(FOLLOWING[ROWS[state] + byte])
        seen += [int(OUTPUTS[state])] if OUTPUTS[state] >= 0 else []
    found = count_features(text, FOLLOWING, ROWS, OUTPUTS, LONGEST)
    assert found is not None
    assert list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == list(Counter(seen).items())
