"""Join several rows with special tokens to the columns of one example."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from clozeline.columns import IDS, STARTS, Feature
from clozeline.extensions.tasks.sets.task_rows import FramedRow

ALL_IDS: Final = Feature("input_ids", "ids", IDS, "framed rows of all choices, end to end")
ALL_SEGMENTS: Final = Feature(
    "segment_starts", "uint32", STARTS, "starts of context and choice of each row, first 0"
)


def join_rows(rows: Sequence[FramedRow]) -> dict[str, object]:
    """Return the columns of the concatenated rows of one example."""
    starts = np.cumsum([0, *(len(row.ids) for row in rows)])[:-1]
    segment_starts: list[int] = []
    for row, begin in zip(rows, starts.tolist(), strict=True):
        segment_starts += [begin + start for start in row.segment_starts]
    return {
        "input_ids": np.concatenate([row.ids for row in rows]),
        "choice_starts": starts,
        "segment_starts": segment_starts,
    }
