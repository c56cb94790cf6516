"""Words of rows and spans of them against plain loops, in rows with and without special tokens."""

from itertools import pairwise

import numpy as np
import pytest

from clozeline.pipeline.kernels.distributions import geometric_thresholds
from clozeline.pipeline.kernels.ragged import IdSet
from clozeline.pipeline.kernels.whole_words import (
    RowWords,
    choose_words,
    find_words,
    run_starts,
    split_long_words,
    unit_starts,
)
from clozeline.seeding import random_bits
from tests.pipeline.corruption_cases import WORDS, samples
from tests.pipeline.word_cases import slow_take, slow_words

LENGTHS = [1 + (37 * row) % 60 for row in range(120)]
KEYS = random_bits(np.array([5], np.uint64), 0, len(LENGTHS))[0]


@pytest.mark.parametrize("specials", [0.0, 0.15])
def test_words_equal_those_of_a_plain_loop(specials):
    ids = samples(LENGTHS, specials=specials).columns["ids"]
    words = find_words(ids, WORDS.opens_word(ids.values), IdSet(WORDS.special))
    for row, (first, last) in enumerate(pairwise(words.offsets.tolist())):
        wanted = slow_words(ids[row].tolist(), WORDS)

        assert (words.starts[first:last] - ids.offsets[row]).tolist() == [
            word.start for word in wanted
        ]
        assert words.lengths[first:last].tolist() == [word.length for word in wanted]

        runs = [word.run for word in wanted]

        assert (words.run_ends[first:last] - first).tolist() == [
            next((later for later in range(index, len(runs)) if runs[later] != run), len(runs))
            for index, run in enumerate(runs)
        ]
        assert words.tokens[row] == sum(word.length for word in wanted)


@pytest.mark.parametrize("specials", [0.0, 0.15])
@pytest.mark.parametrize(
    "thresholds", [None, geometric_thresholds(200_000, 10)], ids=["words", "spans"]
)
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.6, 1.0])
def test_words_within_a_budget_equal_those_of_a_plain_loop(rate, thresholds, specials):
    ids = samples(LENGTHS, specials=specials).columns["ids"]
    words = find_words(ids, WORDS.opens_word(ids.values), IdSet(WORDS.special))
    budgets = np.floor(rate * words.tokens).astype(np.int64)
    found = choose_words(KEYS, words, budgets, ids, thresholds)

    assert found.lengths.tolist() == budgets.tolist()

    for row, budget in enumerate(budgets.tolist()):
        inside = slow_words(ids[row].tolist(), WORDS)
        law = (0,) if thresholds is None else thresholds.tolist()
        assert (found[row] - ids.offsets[row]).tolist() == slow_take(KEYS[row], inside, budget, law)


def test_words_longer_than_asked_become_single_tokens_and_runs_stay():
    """Runs of text: the first two words, the third, and those of the second row."""
    words = RowWords(
        *map(np.array, ([0, 1, 6, 8, 9], [1, 4, 2, 1, 3], [2, 2, 3, 5, 5], [0, 3, 5], [7, 4]))
    )
    split = split_long_words(words, np.array([3, 2]))

    assert split.starts.tolist() == [0, 1, 2, 3, 4, 6, 8, 9, 10, 11]
    assert split.lengths.tolist() == [1, 1, 1, 1, 1, 2, 1, 1, 1, 1]
    assert split.run_ends.tolist() == [5, 5, 5, 5, 5, 6, 10, 10, 10, 10]
    assert split.offsets.tolist() == [0, 6, 10]
    assert split_long_words(words, np.array([4, 3])) is words


def test_runs_and_units_start_where_they_are_opened():
    assert run_starts(np.array([2, 3, 5, 6, 7, 9])).tolist() == [
        True,
        False,
        True,
        False,
        False,
        True,
    ]
    assert unit_starts(np.array([False, False, True, False, True])).tolist() == [0, 0, 2, 2, 4]
