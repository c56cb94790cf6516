"""One micro-batch, as a stream yields it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clozeline.report.html_page import fragment, table


class Batch(NamedTuple):
    """One micro-batch, owned by the caller: writing into its tensors changes no other batch.

    The rows of `position_ids` may share memory.
    """

    tensors: dict[str, Tensor]
    """model inputs by name, `row_weight` among them"""
    row_weight: Tensor
    """float32 [B]; 0 = filler row"""
    origin: NDArray[np.int64]
    """int64 [B, 3]: source, stored block (over all shards), row in it; -1 for filler"""
    samples: int
    """position of the stream after the global batch that this micro-batch belongs to"""
    epoch: float
    """the same in epochs, a fraction"""

    def __repr__(self) -> str:
        shapes = (f"{name} {list(tensor.shape)}" for name, tensor in self.tensors.items())
        return f"Batch({int((self.row_weight > 0).sum())} rows: {', '.join(shapes)})"

    def _repr_html_(self) -> str:
        """Return a table of the tensors for a notebook."""
        rows = [(name, str(tensor.dtype).removeprefix("torch."), str(list(tensor.shape)))
                for name, tensor in self.tensors.items()]  # fmt: skip
        title = f"batch of {int((self.row_weight > 0).sum())} rows, epoch {self.epoch:.2f}"
        return fragment(title, [table(["tensor", "type", "shape"], rows)])
