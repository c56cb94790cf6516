"""Key-value cache for generation: each step computes only its new tokens."""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

Pair: TypeAlias = tuple[Tensor, Tensor]
T = TypeVar("T")


class Cache:
    """Keys and values of growing sequences, of at most `capacity` positions.

    Sequences may have different lengths: each writes at its own positions, and a position reads the
    positions up to itself. No token reads the entries after it, such as the padding of a shorter
    prompt; the next tokens overwrite them.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.columns = 0  # positions stored for the longest sequence
        self._positions = torch.empty(0, 0, dtype=torch.int64)
        self._stored: dict[tuple[nn.Module, int], Pair] = {}
        self._uses: Counter[nn.Module] = Counter()
        self._sources: dict[nn.Module, Any] = {}
        self._states: dict[nn.Module, Any] = {}

    def extend(self, positions: Tensor) -> Tensor:
        """Start a step with tokens at `positions` [B, n]; return all positions, [1, columns]."""
        self._positions = positions
        self.columns += positions.shape[1]
        self._uses.clear()
        return torch.arange(self.columns, device=positions.device)[None]

    def append(self, owner: nn.Module, key: Tensor, value: Tensor) -> Pair:
        """Store keys and values of the new tokens, [B, heads, n, head_dim]; return all so far.

        Each call of `owner`, an attention module, within a step is another layer. Keys are already
        rotated.
        """
        layer = owner, self._uses[owner]
        self._uses[owner] += 1
        if layer not in self._stored:
            rows, heads, _, width = key.shape
            shape = (rows, heads, self.capacity, width)
            self._stored[layer] = key.new_zeros(shape), value.new_zeros(shape)
        index = self._positions[:, None, :, None].expand_as(key)
        for stored, new in zip(self._stored[layer], (key, value), strict=True):
            stored.scatter_(2, index, new)
        keys, values = self._stored[layer]
        return keys[:, :, : self.columns], values[:, :, : self.columns]

    def select(self, rows: Tensor) -> None:
        """Keep these rows [R], in this order; a row may occur several times."""
        self._stored = {layer: _select_rows(pair, rows) for layer, pair in self._stored.items()}
        self._sources = {
            owner: _select_rows(source, rows) for owner, source in self._sources.items()
        }
        self._states = {owner: _select_rows(state, rows) for owner, state in self._states.items()}

    def reorder(self, rows: Tensor) -> None:
        """Let row i continue row `rows[i]` of the same prompt."""
        for pair in self._stored.values():
            for stored in pair:
                used = stored[:, :, : self.columns]
                used.copy_(used.index_select(0, rows))
        self._states = {owner: _select_rows(state, rows) for owner, state in self._states.items()}

    def once(self, owner: nn.Module, compute: Callable[[], T]) -> T:
        """Return the result of `compute` from the owner's first call, such as encoder states."""
        if owner not in self._sources:
            self._sources[owner] = compute()
        return self._sources[owner]

    def remember(self, owner: nn.Module, state: Any) -> None:
        """Store the state of a recurrent model after the tokens so far."""
        self._states[owner] = state

    def recall(self, owner: nn.Module) -> Any:
        """Return the stored state; None at the first step."""
        return self._states.get(owner)


def _select_rows(nested: Any, rows: Tensor) -> Any:
    """Select rows of the tensors in nested tuples and lists; None stays None."""
    if isinstance(nested, Tensor):
        return nested.index_select(0, rows)
    if nested is None:
        return None
    return type(nested)(_select_rows(part, rows) for part in nested)
