"""Per-row attention modes, stored with rows that are not read bidirectionally (UniLM)."""

from typing import Final, Literal, TypeAlias

import numpy as np

from clozeline.arrays import Int64
from clozeline.pipeline.kernels.ragged import scalars
from clozeline.pipeline.rows import Feature, Ragged

Attention: TypeAlias = Literal["bidirectional", "left_to_right", "right_to_left", "prefix"]

ATTENTION_FEATURES: Final = (
    Feature("attention", "uint8", 0, "what place i may read: 1 places j <= i, 2 places j >= i, 3 j <= i or j < prefix"),
    Feature("prefix_length", "uint16", 0, "tokens of input_ids that every place may read, 0 unless attention is 3"),
)
_CODES: Final[tuple[Attention, ...]] = ("bidirectional", "left_to_right", "right_to_left", "prefix")


def attention_columns(attention: Attention, prefix_length: Int64) -> dict[str, Ragged]:
    """Return the columns of `ATTENTION_FEATURES` for rows of one mode, given the tokens of their prefixes [rows]."""
    mode = np.full(len(prefix_length), _CODES.index(attention), np.uint8)
    return {"attention": scalars(mode, np.uint8), "prefix_length": scalars(prefix_length, np.uint16)}
