"""Demonstrations of a row: drawn from labelled rows by (seed, row), whatever the order and the number of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clozeline.errors import ConfigurationError
from clozeline.seeding import hash64, mix
from clozeline.tools.runs.prompting.rows import PromptRow

Selection: TypeAlias = Literal["random", "balanced", "fixed"]


class Demonstrations:
    """Labelled rows from which those before a row are taken. A row with the fields of the row itself never is.

    Args:
        pool: labelled rows. Of equal fields one row remains, that with the first label of the alphabet.
        shots: demonstrations of a row.
        selection: random: any; balanced: of each label as many, or one more; fixed: balanced, and the same for all.
        seed: of the draws.

    Raises:
        ConfigurationError: the pool has fewer rows than are needed.
    """

    def __init__(self, pool: Sequence[PromptRow], shots: int, selection: Selection, seed: int) -> None:
        one_each: dict[int, PromptRow] = {}
        for row in sorted(pool, key=lambda row: (row.uid, row.label or "")):
            one_each.setdefault(row.uid, row)
        self._pool = list(one_each.values())
        self._uids = np.array([row.uid for row in self._pool], dtype=np.uint64)
        labels = sorted({row.label or "" for row in self._pool})
        self._labels = np.array([labels.index(row.label or "") for row in self._pool], dtype=np.int64)
        self._shots, self._selection, self._seed = shots, selection, seed
        if shots and len(self._pool) <= shots:
            raise ConfigurationError(
                f"shots={shots}: expected a file train=FILE with more labelled rows than that, got {len(self._pool)} "
                "different ones"
            )

    def of(self, row: PromptRow) -> list[PromptRow]:
        """Return the demonstrations of a row, in the order of the prompt."""
        if not self._shots:
            return []
        own = 0 if self._selection == "fixed" else row.uid
        base = np.uint64(hash64("demonstrations", self._seed, self._selection, own))
        drawn = mix(mix(self._uids) ^ base)
        order = np.argsort(drawn, kind="stable")
        order = order[self._uids[order] != np.uint64(row.uid)]
        if self._selection != "random":
            turn = _turns(self._labels[order])
            order = order[np.argsort(turn, kind="stable")]
        chosen = order[: self._shots]
        return [self._pool[number] for number in chosen[np.argsort(drawn[chosen], kind="stable")]]


def _turns(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many rows of the same label come before each: those of one turn have different labels."""
    turns = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        own = labels == label
        turns[own] = np.arange(own.sum())
    return turns
