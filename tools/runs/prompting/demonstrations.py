"""Choose the demonstrations of a row by (seed, row), independent of the order and number of rows."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from clozeline.errors import ConfigurationError
from clozeline.seeding import hash64, mix
from clozeline.tools.runs.prompting.rows import PromptRow

Selection: TypeAlias = Literal["random", "balanced", "fixed"]


class Demonstrations:
    """Labeled rows from which the demonstrations of a row are drawn, never a row with the same fields.

    Of rows with equal fields, the one with the alphabetically first label is kept. `selection` random takes any,
    balanced equally many of each label or one more, fixed the same balanced ones for all rows.
    """

    def __init__(self, pool: Sequence[PromptRow], shots: int, selection: Selection, seed: int) -> None:
        distinct_rows: dict[int, PromptRow] = {}
        for row in sorted(pool, key=lambda row: (row.uid, row.label or "")):
            distinct_rows.setdefault(row.uid, row)
        self._pool = list(distinct_rows.values())
        self._uids = np.array([row.uid for row in self._pool], dtype=np.uint64)
        labels = sorted({row.label or "" for row in self._pool})
        self._labels = np.array([labels.index(row.label or "") for row in self._pool], dtype=np.int64)
        self._shots, self._selection, self._seed = shots, selection, seed
        if shots and len(self._pool) <= shots:
            raise ConfigurationError(
                f"shots={shots}: expected a file train=FILE with more labeled rows than that, got {len(self._pool)} "
                "different ones"
            )

    def of(self, row: PromptRow) -> list[PromptRow]:
        """Return the demonstrations of a row, in prompt order."""
        if not self._shots:
            return []
        row_key = 0 if self._selection == "fixed" else row.uid
        base = np.uint64(hash64("demonstrations", self._seed, self._selection, row_key))
        # a random key per row of the pool, fixed by (seed, row); the smallest keys are drawn
        drawn = mix(mix(self._uids) ^ base)
        order = np.argsort(drawn, kind="stable")
        order = order[self._uids[order] != np.uint64(row.uid)]
        if self._selection != "random":
            # one row of each label per turn: its rank among the rows of its label
            labels, turns = self._labels[order], np.empty(len(order), dtype=np.int64)
            for label in np.unique(labels):
                turns[labels == label] = np.arange((labels == label).sum())
            order = order[np.argsort(turns, kind="stable")]
        selected = order[: self._shots]
        return [self._pool[number] for number in selected[np.argsort(drawn[selected], kind="stable")]]
