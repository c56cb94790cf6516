"""Set the smallest weights to zero (arXiv 1506.02626)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from clozeline.configuration.config import config_class
from clozeline.model.checkpoints import Checkpoint
from clozeline.model.compression._method import Batch, Compressed, Method
from clozeline.model.compression._parts import matrices_of_layers
from clozeline.model.compression._sizes import Sparsity


class Magnitude(Method):
    """The entries of smallest |w| become zero in the linear maps of the layers; embeddings, norms and heads stay.

    Dense kernels multiply zeros like any number: this saves neither time nor bytes on disk.

    Example:
        >>> mask_smallest([torch.tensor([[3.0, -1.0], [0.5, 2.0]])], 2)[0].tolist()
        [[False, True], [True, False]]
    """

    options: Options
    claim: ClassVar = "30 % to 40 % zeros in BERT change neither its loss nor its transfer (2002.08307)"

    @config_class
    class Options:
        """Share of zeros, and what competes."""

        sparsity: Sparsity
        """Share of the entries that become zero, in (0, 1)."""
        scope: Literal["local", "global"] = "local"
        """local: this share of each matrix; global: of all of them together."""

    def compress(self, checkpoint: Checkpoint, batches: Sequence[Batch]) -> Compressed:
        matrices = matrices_of_layers(checkpoint, "magnitude")
        groups = [matrices] if self.options.scope == "global" else [{name: own} for name, own in matrices.items()]
        tensors = dict(checkpoint.tensors)
        zeros = 0
        for group in groups:
            count = round(self.options.sparsity * sum(tensor.numel() for tensor in group.values()))
            for name, mask in zip(group, mask_smallest(list(group.values()), count), strict=True):
                tensors[name] = group[name].masked_fill(mask, 0)
            zeros += count
        total = sum(tensor.numel() for tensor in matrices.values())
        line = f"zeros: {zeros:,} of {total:,} entries in {len(matrices)} matrices, {self.options.scope}"
        return Compressed(replace(checkpoint, tensors=tensors), (line,))


def mask_smallest(tensors: Sequence[Tensor], count: int) -> list[Tensor]:
    """Return masks, True at the `count` entries of smallest magnitude over all tensors; of equal ones the first.

    The threshold is found by bisection over the bits of a float, so that no sorted copy of the weights is needed.
    """
    # bits of non-negative floats of one type are ordered like the floats
    bits = {4: torch.int32, 8: torch.int64, 2: torch.int16}[tensors[0].element_size()]
    low, high = 0, torch.iinfo(bits).max
    while low < high:  # smallest value that at least `count` entries do not exceed
        middle = (low + high) // 2
        below = sum(int((tensor.abs().view(bits) <= middle).sum()) for tensor in tensors)
        low, high = (low, middle) if below >= count else (middle + 1, high)
    masks = [tensor.abs().view(bits) < low for tensor in tensors]
    # entries of exactly this value fill what is missing, in order
    missing = count - sum(int(mask.sum()) for mask in masks)
    for tensor, mask in zip(tensors, masks, strict=True):
        equal = torch.nonzero((tensor.abs().view(bits) == low).flatten()).flatten()[: max(0, missing)]
        mask.view(-1)[equal] = True
        missing -= len(equal)
    return masks
