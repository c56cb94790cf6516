"""Choose the copy that is kept: a rule over the set of copies, independent of their order; ties: the smallest uid."""

from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.pipeline.dedup.components import run_starts
from clozeline.pipeline.dedup.config import Keep

KEEP_COLUMNS: Final = ("n_chars", "date")
"""Document columns that the rules read."""
Uids: TypeAlias = NDArray[np.bytes_]
"""Document uids, 16 bytes each."""
_NO_DATE: Final = -(2**62)


def merits(batch: pa.RecordBatch, keep: Keep) -> NDArray[np.int64]:
    """Return a score per document, int64 [n]; the copy with the highest is kept."""
    if keep == "longest":
        return np.asarray(batch.column("n_chars"), dtype=np.int64)
    if keep == "newest":
        return np.asarray(pc.fill_null(batch.column("date").cast(pa.int64()), _NO_DATE), dtype=np.int64)
    return np.zeros(len(batch), dtype=np.int64)


def choose_kept(groups: NDArray[Any], merit: Int64, uids: Uids) -> Int64:
    """Return for each row the row of its group that is kept, shape [n]: highest merit, then smallest uid.

    groups ["x", "y", "x"], merit [4, 9, 7] -> [2, 1, 2]
    """
    order = np.lexsort((uids, -merit, groups))
    starts = run_starts(groups[order])
    kept = np.empty(len(order), dtype=np.int64)
    kept[order] = order[starts][np.cumsum(starts) - 1]
    return kept
