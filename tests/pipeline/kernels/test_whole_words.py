"""Words of rows and spans of them against plain loops, in rows with and without special tokens."""

import numpy as np

from clozeline.pipeline.kernels.whole_words import (
    RowWords,
    run_starts,
    split_long_words,
    unit_starts,
)


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
