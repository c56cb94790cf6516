"""WANDA: set weights to zero by magnitude times the norm of their input (arXiv 2306.11695)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import ClassVar

import torch
from torch import Tensor, nn

from clozeline.configuration.config import config_class
from clozeline.model.checkpoints import Checkpoint
from clozeline.model.compression._calibration import build_sharing, sum_inputs
from clozeline.model.compression._method import Batch, Compressed, Method
from clozeline.model.compression._parts import layer_of, matrices_of_layers
from clozeline.model.compression._selection import Sparsity


class Wanda(Method):
    """Each output of a linear map loses the inputs of smallest |W_ij| * ||X_j||, X over real calibration tokens.

    Layers are cut from the first to the last, each with the inputs that the layers before it give after their cut.
    Dense kernels multiply zeros like any number: this saves neither time nor bytes on disk.

    Example (two outputs, three inputs; the second input is large):
        >>> mask_row_wise(torch.tensor([[3.0, 1.0, 2.0], [1.0, 1.0, 4.0]]), torch.tensor([1.0, 9.0, 1.0]), 1).tolist()
        [[False, False, True], [True, False, False]]
    """

    options: Options
    claim: ClassVar = "LLaMA-7B at 50 %: perplexity 5.68 to 7.26, by magnitude 17.29 (2306.11695)"
    calibration: ClassVar = "required"

    @config_class
    class Options:
        """Share of zeros, and its pattern."""

        sparsity: Sparsity = 0.5
        """Share of the inputs that each output loses, in (0, 1), rounded to entire ones."""

    def compress(self, checkpoint: Checkpoint, batches: Sequence[Batch]) -> Compressed:
        matrices = matrices_of_layers(checkpoint, "wanda")
        model, tensors = build_sharing(checkpoint), dict(checkpoint.tensors)
        zeros = 0
        for _, names in groupby(matrices, key=layer_of):
            paths = {name: name.removesuffix(".weight") for name in names}
            squares = sum_inputs(model, paths.values(), batches, lambda x: x.square().sum(0))
            for name, path in paths.items():
                count = round(self.options.sparsity * matrices[name].shape[1])
                mask = mask_row_wise(matrices[name], squares[path].sqrt(), count)
                tensors[name] = matrices[name].masked_fill(mask, 0)
                # the next layers read what this one gives now; its tensor in the checkpoint stays
                module = model.get_submodule(path)
                assert isinstance(module.weight, Tensor)
                module.weight = nn.Parameter(tensors[name].to(module.weight.dtype), requires_grad=False)
                zeros += int(mask.sum())
        total = sum(tensor.numel() for tensor in matrices.values())
        rows = sum(len(batch["row_weight"]) for batch in batches)
        line = f"zeros: {zeros:,} of {total:,} entries in {len(matrices)} matrices, by the inputs of {rows} rows"
        return Compressed(replace(checkpoint, tensors=tensors), (line,))


def mask_row_wise(weight: Tensor, norms: Tensor, count: int) -> Tensor:
    """Return [outputs, inputs] bool: the `count` smallest |w| x norm in each row; of equal ones the first."""
    scores = weight.abs().double() * norms
    smallest = torch.sort(scores, dim=1, stable=True).indices[:, :count]
    return torch.zeros_like(weight, dtype=torch.bool).scatter_(1, smallest, True)
