"""Windows over long texts, and the tokens of words."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from clozeline.arrays import Int64

NO_WORD: Final = 65_535
"""Word index of a token without a word."""


def token_spans(text: str, starts: Int64, ends: Int64 | None = None) -> Int64:
    """Return the first character of each token and the one after its last, [tokens, 2], without surrounding whitespace.

    Tokens that share a character all span it; the first of them holds its first byte. A whitespace
    token is empty.

    Args:
        text: the encoded text.
        starts: `Encoding.starts`, [tokens].
        ends: `Encoding.ends`, [tokens]; None if no token ends inside a character.

    Example:
        >>> token_spans(" a  bc", np.array([0, 2, 5])).tolist()
        [[1, 2], [4, 5], [5, 6]]
    """
    # where the next token with another start begins [T]
    following = np.append(starts, len(text))[np.searchsorted(starts, starts, side="right")]
    following = following if ends is None else np.maximum(following, ends)
    # for each character: end of the last and start of the next visible one, [characters + 1]
    positions = np.arange(len(text) + 1)
    blank = np.fromiter(map(str.isspace, text), np.bool_, len(text))
    last = np.maximum.accumulate(np.where(np.append(True, ~blank), positions, 0))
    first = np.minimum.accumulate(np.where(np.append(~blank, True), positions, len(text))[::-1])[
        ::-1
    ]
    begins = np.minimum(first[starts], following)
    return np.stack((begins, np.maximum(last[following], begins)), axis=1)


def word_bounds(words: Sequence[str]) -> Int64:
    """Return the characters of words joined by single spaces, [words, 2]; `["a", "bc"]` gives 0:1 and 2:4."""
    ends = np.array(list(accumulate((len(word) + 1 for word in words), initial=0)), np.int64)
    return np.stack((ends[:-1], ends[1:] - 1), axis=1)


def word_numbers(spans: Int64, bounds: Int64) -> Int64:
    """Return the index of the word in which each token starts, [tokens]; `NO_WORD` for an empty token."""
    numbers = np.searchsorted(bounds[:, 0], spans[:, 0], side="right") - 1
    return np.where(spans[:, 0] < spans[:, 1], numbers, NO_WORD)


def first_tokens(spans: Int64, bounds: Int64) -> Int64:
    """Return the token that holds the first byte of each word, [words]; -1 for a word without tokens.

    `spans` are the character offsets of tokens, [tokens, 2], ascending; `bounds` of words, [words,
    2].

    Example:
        >>> first_tokens(np.array([[0, 2], [2, 3], [5, 6]]), np.array([[0, 3], [4, 5], [5, 6]])).tolist()
        [0, -1, 2]
    """
    begins = bounds[:, 0]
    tokens = np.searchsorted(spans[:, 1], begins, side="right")
    return np.where(np.append(spans[:, 0], np.iinfo(np.int64).max)[tokens] <= begins, tokens, -1)


def sliding_windows(sizes: Sequence[int] | Int64, room: int, step: int) -> list[tuple[int, int]]:
    """Return overlapping windows over the units of a text as (first, after last) unit indices.

    A window holds as many units as fit into `room`, at least one. The next window starts `step`
    tokens later, or at the first unit after that; no unit is skipped and every window adds a new
    one. For single tokens these are BERT's windows for SQuAD (arXiv 1810.04805).

    Args:
        sizes: tokens of each unit, such as a word.
        room: tokens of a window.
        step: tokens between the starts of two windows.

    Example:
        >>> sliding_windows([1] * 10, room=6, step=3), sliding_windows([3, 3, 3], room=6, step=3)
        ([(0, 6), (3, 9), (6, 10)], [(0, 2), (1, 3)])
    """
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    windows: list[tuple[int, int]] = []
    start = 0
    while True:
        end = max(start + 1, int(np.searchsorted(offsets, offsets[start] + room, side="right")) - 1)
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
        # tokens before and after each unit of this window; contexts are scaled by 100 to stay
        # integers
        left = offsets[start:end] - offsets[start]
        right = offsets[end] - offsets[start + 1 : end + 1]
        context = 100 * np.minimum(left, right) + offsets[end] - offsets[start]
        better = context > best[start:end]
        best[start:end][better] = context[better]
        window_of[start:end][better] = number
    return window_of
