"""Words of rows and what is taken of them: by hand, and against plain loops with budgets of every size."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.kernels.distributions import geometric_thresholds
from clozeline.pipeline.kernels.ragged import IdSet, span_positions
from clozeline.pipeline.kernels.whole_words import (
    find_words,
    positions_of_words,
    run_starts,
    take_words,
    unit_starts,
)
from clozeline.pipeline.rows import Ragged
from clozeline.seeding import mix
from tests.pipeline.corruption_cases import SEP, vocabulary
from tests.pipeline.word_cases import slow_take, slow_words

WORDS = vocabulary(400)
SPECIAL = IdSet(WORDS.special)
OPEN, INSIDE = 201, 202


def words_of(ids):
    return find_words(ids, WORDS.opens_word(ids.values), SPECIAL)


def keys_of(rows, seed=0):
    return mix(np.arange(seed, seed + rows, dtype=np.uint64))


def test_words_by_hand():
    """A row's start and a special open a word, whatever the tokenizer says; a special belongs to none."""
    rows = [[INSIDE, INSIDE, OPEN, INSIDE], [SEP, INSIDE, SEP, SEP, OPEN, OPEN], [OPEN]]
    words = words_of(Ragged.from_lists(rows, np.uint16))
    assert words.starts.tolist() == [0, 2, 5, 8, 9, 10]
    assert words.lengths.tolist() == [2, 2, 1, 1, 1, 1]
    assert words.offsets.tolist() == [0, 2, 5, 6]
    assert words.run_ends.tolist() == [2, 2, 3, 5, 5, 6]
    assert words.tokens.tolist() == [4, 3, 1]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.sampled_from([OPEN, INSIDE, INSIDE, SEP]), min_size=1, max_size=40), min_size=1, max_size=8
    ),
    share=st.floats(0, 1),
    spans=st.booleans(),
    seed=st.integers(0, 2**30),
)
def test_taken_words_equal_a_plain_loop(rows, share, spans, seed):
    ids = Ragged.from_lists(rows, np.uint16)
    words = words_of(ids)
    budgets = np.minimum(words.tokens, np.ceil(share * words.tokens)).astype(np.int64)
    thresholds = geometric_thresholds(200_000, 10) if spans else None
    keys = keys_of(len(rows), seed)
    taken = take_words(keys, words, budgets, thresholds)
    tokens = positions_of_words(words, taken, ids)
    for number, row in enumerate(rows):
        found = slow_words(row, WORDS)
        own = slice(words.offsets[number], words.offsets[number + 1])
        assert words.starts[own].tolist() == [word.start + ids.offsets[number] for word in found]
        if not found or not budgets[number]:
            assert not taken[own].any()
            continue
        table = (0,) if thresholds is None else thresholds.tolist()
        wanted = slow_take(keys[number], found, int(budgets[number]), table)
        assert set(np.flatnonzero(taken[own]).tolist()) == wanted
        positions = [found[word].start + step for word in sorted(wanted) for step in range(found[word].length)]
        assert (tokens[number] - ids.offsets[number]).tolist() == positions


def test_runs_and_who_decides_for_them():
    positions = np.array([3, 4, 5, 9, 11, 12])
    assert run_starts(positions).tolist() == [True, False, False, True, True, False]
    assert unit_starts(run_starts(positions)).tolist() == [0, 0, 0, 3, 4, 4]
    assert run_starts(np.empty(0, np.int64)).tolist() == []
    assert span_positions(np.array([3, 9, 11]), np.array([3, 1, 2])).tolist() == positions.tolist()
    assert span_positions(np.array([3, 9]), np.array([0, 1])).tolist() == [9]
