"""Columns of examples that are several framed rows, end to end."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from clozeline.columns import IDS, STARTS, Feature
from clozeline.pipeline.tasks.task_rows import FramedRow

ALL_IDS: Final = Feature("input_ids", "ids", IDS, "framed rows of all choices, end to end")
ALL_SEGMENTS: Final = Feature(
    "segment_starts", "uint32", STARTS, "starts of context and choice of each row, first 0"
)


def join_rows(rows: Sequence[FramedRow]) -> dict[str, object]:
    """Return the columns of several rows of one example, end to end."""
    starts = np.cumsum([0, *(len(row.ids) for row in rows)])[:-1]
    return {
        "input_ids": np.concatenate([row.ids for row in rows]),
        "choice_starts": starts,
        "segment_starts": [
            at + begin for row, begin in zip(rows, starts, strict=True) for at in row.segment_starts
        ],
    }
