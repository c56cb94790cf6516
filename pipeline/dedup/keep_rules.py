"""The choice of the copy that stays: a rule over the set of copies; the smallest uid decides ties, never the order."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Keep: TypeAlias = Literal["longest", "first", "newest"]
"""`longest` text, `first` = smallest uid, `newest` capture date (a document without a date is the oldest)."""

KEEP_COLUMNS: Final = ("n_chars", "date")
"""Columns of a document that the rules look at."""

_NO_DATE: Final = -(2**62)


def merits(batch: pa.RecordBatch, keep: Keep) -> NDArray[np.int64]:
    """Return a number per document; of several copies the one with the highest stays."""
    if keep == "longest":
        return np.asarray(batch.column("n_chars"), dtype=np.int64)
    if keep == "newest":
        return np.asarray(pc.fill_null(batch.column("date").cast(pa.int64()), _NO_DATE), dtype=np.int64)
    return np.zeros(len(batch), dtype=np.int64)


def kept_rows(groups: NDArray[Any], merit: NDArray[np.int64], uids: NDArray[np.bytes_]) -> NDArray[np.int64]:
    """Return for each row the row of its group that stays, shape [n]: highest merit, then smallest uid.

    groups ["x", "y", "x"], merit [4, 9, 7] -> [2, 1, 2]
    """
    order = np.lexsort((uids, -merit, groups))
    ordered = groups[order]
    opens = np.ones(len(order), dtype=bool)
    opens[1:] = ordered[1:] != ordered[:-1]
    kept = np.empty(len(order), dtype=np.int64)
    kept[order] = order[opens][np.cumsum(opens) - 1]
    return kept
