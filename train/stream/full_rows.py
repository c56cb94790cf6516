"""Position ids, lengths and weights of batches whose rows are all equally long and none is filler.

They are the same numbers for every batch, yet each batch has memory of its own, because its tensors belong to the
caller. Made one by one, they would cost a small batch a fifth of its time; so they are made for many batches at once,
and where possible in the thread that builds ahead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, TypeAlias

import torch
from torch import Tensor

__all__ = ["FullRows"]

_AT_ONCE: Final = 32
_LIMIT: Final = 1024  # of prepared batches, so that those prepared for a stream that was moved do not add up
_Tensors: TypeAlias = tuple[Tensor, Tensor, Tensor]


class FullRows:
    """Tensors of batches of one shape, made before they are taken; any thread may prepare, and any may take.

    Example: after `prepare(2, 3, 1)`, `take(2, 3)` gives [[0, 1, 2], [0, 1, 2]], [3, 3] and [1.0, 1.0].
    """

    def __init__(self) -> None:
        self._prepared: tuple[tuple[int, int], deque[_Tensors]] = ((0, 0), deque())

    def prepare(self, rows: int, width: int, batches: int) -> None:
        """Make the tensors of coming batches; those of another shape are dropped.

        Args:
            rows: rows of a batch.
            width: tokens of a row.
            batches: number of batches that will take them.
        """
        shape, prepared = self._prepared
        if shape != (rows, width):
            prepared = deque(maxlen=_LIMIT)
            self._prepared = ((rows, width), prepared)
        prepared.extend(_tensors(rows, width, batches))

    def take(self, rows: int, width: int) -> _Tensors:
        """Return position ids [rows, width], lengths [rows] and weights of 1 [rows] of one batch."""
        shape, prepared = self._prepared
        if shape == (rows, width):
            try:
                return prepared.popleft()  # a single operation: another thread may take the last tensors
            except IndexError:
                pass
        first, *others = _tensors(rows, width, _AT_ONCE)
        self._prepared = ((rows, width), deque(others, maxlen=_LIMIT))
        return first


def _tensors(rows: int, width: int, batches: int) -> Iterator[_Tensors]:
    """Yield the tensors of each batch; one operation makes those of all batches."""
    positions = torch.arange(width).repeat(batches, 1)[:, None].expand(-1, rows, -1)
    lengths = torch.full((batches, rows), width)
    return zip(positions.unbind(), lengths.unbind(), torch.ones(batches, rows).unbind(), strict=True)
