"""Compute windows over long texts, and the tokens of words."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from clozeline.arrays import Int64

NO_WORD: Final = 65_535
"""Word index of a token that belongs to no word."""


def word_bounds(words: Sequence[str]) -> Int64:
    """Return the character ranges of words joined by spaces, [words, 2]."""
    ends = np.array(list(accumulate((len(word) + 1 for word in words), initial=0)), np.int64)
    return np.stack((ends[:-1], ends[1:] - 1), axis=1)


def word_numbers(spans: Int64, bounds: Int64) -> Int64:
    """Return the word index of each token by its start, [tokens]; `NO_WORD` for empty tokens."""
    numbers = np.searchsorted(bounds[:, 0], spans[:, 0], side="right") - 1
    return np.where(spans[:, 0] < spans[:, 1], numbers, NO_WORD)


def sliding_windows(sizes: Sequence[int] | Int64, limit: int, step: int) -> list[tuple[int, int]]:
    """Return overlapping windows over the units of a text, as (first, end) unit indices.

    A window holds as many units as fit into `limit` tokens, at least one. The next window starts
    `step` tokens later, or at the next unit; no unit is skipped, and every window adds a new one.
    For single tokens these are BERT's windows for SQuAD (arXiv 1810.04805).

    Args:
        sizes: tokens of each unit, such as a word.
        limit: most tokens of a window.
        step: tokens between the starts of two windows.

    Example:
        >>> sliding_windows([1] * 10, limit=6, step=3), sliding_windows([3, 3, 3], limit=6, step=3)
        ([(0, 6), (3, 9), (6, 10)], [(0, 2), (1, 3)])
    """
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    windows: list[tuple[int, int]] = []
    start = 0

    while True:
        fitting = int(np.searchsorted(offsets, offsets[start] + limit, side="right")) - 1
        end = max(start + 1, fitting)
        if not windows or end > windows[-1][1]:
            windows.append((start, min(end, len(sizes))))
        if end >= len(sizes):
            return windows
        following = int(np.searchsorted(offsets[: end + 1], offsets[start] + step, side="left"))
        start = min(max(following, start + 1), end)


def assign_to_windows(windows: Sequence[tuple[int, int]], sizes: Sequence[int] | Int64) -> Int64:
    """Return the index of the window in which each unit has the most context, [units].

    The context of a unit is the smaller of its two sides plus a hundredth of the window's length,
    as in BERT's code; the first window wins a tie. `sizes` are the tokens of each unit.

    Example:
        >>> assign_to_windows([(0, 6), (3, 9), (6, 10)], [1] * 10).tolist()
        [0, 0, 0, 0, 0, 1, 1, 1, 2, 2]
    """
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    best = np.full(len(sizes), -1, np.int64)
    window_of = np.zeros(len(sizes), np.int64)

    for number, (start, end) in enumerate(windows):
        # tokens before and after each unit of this window; scaled by 100, contexts are integers
        left = offsets[start:end] - offsets[start]
        right = offsets[end] - offsets[start + 1 : end + 1]
        context = 100 * np.minimum(left, right) + offsets[end] - offsets[start]
        better = context > best[start:end]
        best[start:end][better] = context[better]
        window_of[start:end][better] = number

    return window_of
