"""The codes of the modes of attention are those that a model reads."""

from __future__ import annotations

import numpy as np
import torch

from clozeline.model.layers.masks import mode_mask
from clozeline.pipeline.corrupt.objectives._masked_rows import ATTENTION_FEATURES, attention_columns

READS = {
    "bidirectional": lambda i, j, prefix: True,
    "left_to_right": lambda i, j, prefix: j <= i,
    "right_to_left": lambda i, j, prefix: j >= i,
    "prefix": lambda i, j, prefix: j <= i or j < prefix,
}


def test_the_codes_mean_what_their_names_say() -> None:
    for name, reads in READS.items():
        columns = attention_columns(name, np.array([2, 4]))  # type: ignore[arg-type]
        assert list(columns) == [feature.name for feature in ATTENTION_FEATURES]
        assert [columns[one.name].values.dtype for one in ATTENTION_FEATURES] == [
            one.dtype for one in ATTENTION_FEATURES
        ]
        tensors = [torch.from_numpy(column.values.astype(np.int64)) for column in columns.values()]
        mask = mode_mask(*tensors, 6).expand(2, 1, 6, 6)
        for row, prefix in enumerate((2, 4)):
            assert mask[row, 0].tolist() == [[reads(i, j, prefix) for j in range(6)] for i in range(6)]
