"""What a micro-batch says of itself."""

from __future__ import annotations

import numpy as np
import torch

from clozeline.train.data.stream.batch import Batch


def test_a_batch_names_its_tensors_and_counts_its_rows_without_filler() -> None:
    tensors = {"input_ids": torch.zeros(3, 7, dtype=torch.int64), "label_ids": torch.zeros(4, dtype=torch.int32)}
    batch = Batch(tensors, torch.tensor([1.0, 1.0, 0.0]), np.zeros((3, 3), np.int64), 3, 0.5)
    assert repr(batch) == "Batch(2 rows: input_ids [3, 7], label_ids [4])"
    html = batch._repr_html_()
    assert "batch of 2 rows, epoch 0.50" in html
    assert "<td>input_ids</td><td>int64</td><td>[3, 7]</td>" in html
