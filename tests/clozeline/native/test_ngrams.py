"""Features of a text by an automaton, and rows in single precision, beside slow references."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clozeline.native.library import is_available, missing_note
from clozeline.native.ngrams import NgramTable

pytestmark = pytest.mark.skipif(not is_available(), reason=f"{missing_note()}")


def random_table(seed, states, rows, features, columns):
    draw = np.random.default_rng(seed)
    halves = draw.integers(0, 2**16, (features, columns)).astype(np.uint16).view(np.float16)
    return (
        draw.integers(0, states, rows * 256).astype(np.uint32),
        draw.integers(0, rows, states).astype(np.uint32),
        draw.integers(-1, features, states).astype(np.int32),
        np.where(np.isfinite(halves), halves, np.float16(-0.0)),
    )


def count_features(moves, rows, features, text):
    """Walk byte by byte; a dictionary keeps the order of the first places."""
    state = 0
    counts = {}

    for byte in text:
        state = moves[rows[state] * 256 + byte]
        if features[state] >= 0:
            counts[features[state]] = counts.get(features[state], 0) + 1

    return counts


@given(
    st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 9), st.integers(1, 60), st.binary()
)
@example(1, 40, 9, 5, b"an automaton that never forgets its start" * 9)
@example(1, 1, 1, 1, b"")
def test_features_are_those_of_a_walk_from_byte_to_byte(seed, states, rows, features, text):
    """Random automata do not forget their start, so the parts of the text depend on each other."""
    parts = random_table(seed, states, rows, features, 7)
    table = NgramTable(*parts)

    for each in (text, text * 5, text[::-1] * 2):
        wanted = count_features(*parts[:3], each)
        counts, floats = table.find(each)
        assert counts.tolist() == list(wanted.values())
        expected = parts[3][list(wanted)].astype(np.float32).reshape(-1, 7)
        np.testing.assert_array_equal(floats.view(np.uint32), expected.view(np.uint32))


def test_every_finite_half_is_exact():
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    table = halves[np.isfinite(halves)].reshape(256, -1)
    moves = np.tile(np.arange(256, dtype=np.uint32), 256)
    rows = np.arange(256, dtype=np.uint32)

    found = NgramTable(moves, rows, rows.astype(np.int32), table).find(bytes(range(256)))[1]

    np.testing.assert_array_equal(found.view(np.uint32), table.astype(np.float32).view(np.uint32))


@pytest.mark.parametrize(
    ("part", "value"),
    [(0, 40), (1, 9), (2, 60), (2, -2), (3, np.nan), (3, np.inf)],
)
def test_what_has_no_entry_is_refused(part, value):
    parts = random_table(3, 40, 9, 60, 7)
    parts[part][0] = value
    with pytest.raises(ValueError, match="expected"):
        NgramTable(*parts)
