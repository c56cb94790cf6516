"""Windows over a text that is longer than a row, and the window in which a part of it is judged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clozeline.arrays import Int64


def sliding_windows(sizes: Sequence[int] | Int64, room: int, step: int) -> list[tuple[int, int]]:
    """Return windows over parts of a text, each the number of its first part and that after its last.

    A window takes as many parts as fit into `room`, and one at least. The next one begins `step` tokens after it, or at
    the first part after that, leaves nothing out, and holds a part that is in none before it. Of single tokens these
    are BERT's windows for SQuAD (arXiv 1810.04805).

    Args:
        sizes: tokens of each part, such as a word.
        room: tokens of a window.
        step: tokens between the begins of two windows.

    Example:
        >>> windows([1] * 10, room=6, step=3), windows([3, 3, 3], room=6, step=3)
        ([(0, 6), (3, 9), (6, 10)], [(0, 2), (1, 3)])
    """
    places = np.concatenate(([0], np.cumsum(sizes)))
    found: list[tuple[int, int]] = []
    start = 0
    while True:
        end = max(start + 1, int(np.searchsorted(places, places[start] + room, side="right")) - 1)
        if not found or end > found[-1][1]:
            found.append((start, min(end, len(sizes))))
        if end >= len(sizes):
            return found
        following = int(np.searchsorted(places[: end + 1], places[start] + step, side="left"))
        start = min(max(following, start + 1), end)


def assign_to_windows(found: Sequence[tuple[int, int]], sizes: Sequence[int] | Int64) -> Int64:
    """Return the number of the window in which each part has the most context, [parts].

    The context of a part is the smaller of those on its two sides, and a hundredth of the window's length, as in BERT's
    code; of equal ones it is that of the first window.

    Args:
        found: windows over the parts.
        sizes: tokens of each part.

    Example:
        >>> owners([(0, 6), (3, 9), (6, 10)], [1] * 10).tolist()
        [0, 0, 0, 0, 0, 1, 1, 1, 2, 2]
    """
    places = np.concatenate(([0], np.cumsum(sizes)))
    best = np.full(len(sizes), -1, np.int64)
    window_of = np.zeros(len(sizes), np.int64)
    for number, (start, end) in enumerate(found):
        left = places[start:end] - places[start]
        right = places[end] - places[start + 1 : end + 1]
        context = 100 * np.minimum(left, right) + places[end] - places[start]
        better = context > best[start:end]
        best[start:end][better] = context[better]
        window_of[start:end][better] = number
    return window_of
