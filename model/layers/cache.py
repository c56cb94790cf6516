"""Keys and values, or states, that a generation keeps, so that each step reads its new tokens only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

Pair: TypeAlias = tuple[Tensor, Tensor]
T = TypeVar("T")


class Cache:
    """Keys and values of rows that grow.

    Rows may have different lengths: each writes at its own places, and a place reads those up to its own. No token
    reads what is after it, padding of a shorter prompt or zeros, and the next tokens are written over that.

    Args:
        capacity: places of a row that will be written at most.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._columns = 0
        self._places = torch.empty(0, 0, dtype=torch.int64)
        self._unread_tensors: dict[tuple[nn.Module, int], Pair] = {}
        self._uses: Counter[nn.Module] = Counter()
        self._sources: dict[nn.Module, Any] = {}
        self._states: dict[nn.Module, Any] = {}

    @property
    def columns(self) -> int:
        """Number of places that are kept, in the longest row."""
        return self._columns

    def extend(self, places: Tensor) -> Tensor:
        """Begin a step with new tokens at `places` [B, n]; return all places that they may read, [1, columns]."""
        self._places = places
        self._columns += places.shape[1]
        self._uses.clear()
        return torch.arange(self._columns, device=places.device)[None]

    def append(self, owner: nn.Module, key: Tensor, value: Tensor) -> Pair:
        """Keep keys and values of the new tokens, [B, heads, n, head_dim]; return those of all columns so far.

        Args:
            owner: the attention that they belong to; each of its calls in a step is another layer.
            key: rotated, if the model rotates keys.
            value: values.
        """
        layer = owner, self._uses[owner]
        self._uses[owner] += 1
        if layer not in self._unread_tensors:
            rows, heads, _, width = key.shape
            room = (rows, heads, self.capacity, width)
            self._unread_tensors[layer] = key.new_zeros(room), value.new_zeros(room)
        index = self._places[:, None, :, None].expand_as(key)
        kept = [
            whole.scatter_(2, index, new) for whole, new in zip(self._unread_tensors[layer], (key, value), strict=True)
        ]
        return kept[0][:, :, : self._columns], kept[1][:, :, : self._columns]

    def select(self, rows: Tensor) -> None:
        """Keep these rows [R] in this order, of all that is kept; one may come several times."""
        self._unread_tensors = {layer: _select_rows(pair, rows) for layer, pair in self._unread_tensors.items()}
        self._sources = {owner: _select_rows(kept, rows) for owner, kept in self._sources.items()}
        self._states = {owner: _select_rows(state, rows) for owner, state in self._states.items()}

    def reorder(self, rows: Tensor) -> None:
        """Let row i continue row `rows[i]`, which reads the same source."""
        for pair in self._unread_tensors.values():
            for whole in pair:
                used = whole[:, :, : self._columns]
                used.copy_(used.index_select(0, rows))
        self._states = {owner: _select_rows(state, rows) for owner, state in self._states.items()}

    def once(self, owner: nn.Module, compute: Callable[[], T]) -> T:
        """Return what `compute` gave on the first call for this owner: states of a source, which does not grow."""
        if owner not in self._sources:
            self._sources[owner] = compute()
        kept: T = self._sources[owner]
        return kept

    def remember(self, owner: nn.Module, state: Any) -> None:
        """Keep the state of a recurrent model after the tokens so far."""
        self._states[owner] = state

    def recall(self, owner: nn.Module) -> Any:
        """Return the state that was kept last; None at the first step."""
        return self._states.get(owner)


def _select_rows(kept: Any, rows: Tensor) -> Any:
    """Return these rows of the tensors in a structure of tuples and lists; None stays."""
    if isinstance(kept, Tensor):
        return kept.index_select(0, rows)
    return kept if kept is None else type(kept)(_select_rows(part, rows) for part in kept)
