"""Set the smallest weights to zero (arXiv 1506.02626)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import Checkpoint
from clozeline.model.compression.methods._method import Batch, Compressed, Method, split_name
from clozeline.model.compression.methods._selection import Scope, Sparsity, choose_lowest


class Magnitude(Method):
    """The entries of smallest |w| become zero in the linear maps of the layers; embeddings, norms and heads stay.

    Dense kernels multiply zeros like any number: this saves neither time nor bytes on disk.
    """

    options: Options
    claim: ClassVar = "BERT with 30 % to 40 % zeros in these matrices has the same loss and transfer (2002.08307)"

    @config_class
    class Options:
        """Share of zeros, and what competes."""

        sparsity: Sparsity
        """Share of the entries that become zero, in (0, 1)."""
        scope: Scope = "local"
        """local: this share of each matrix; global: of all of them together."""

    def compress(self, checkpoint: Checkpoint, batches: Sequence[Batch]) -> Compressed:
        # the linear maps of the layers, in the order of the model
        matrices = {
            name: tensor
            for name, tensor in checkpoint.tensors.items()
            if tensor.ndim == 2 and name.endswith(".weight") and split_name(name) is not None
        }
        if not matrices:
            family = checkpoint.config.family
            raise ConfigurationError(f"method=magnitude: expected a family with layers of linear maps, got {family}")
        groups = [matrices] if self.options.scope == "global" else [{name: own} for name, own in matrices.items()]
        tensors, zeros = dict(checkpoint.tensors), 0
        for group in groups:
            count = round(self.options.sparsity * sum(tensor.numel() for tensor in group.values()))
            magnitudes = (tensor.abs().flatten() for tensor in group.values())
            masks = choose_lowest(magnitudes, [0] * len(group), [count])
            for (name, tensor), mask in zip(group.items(), masks, strict=True):
                tensors[name] = tensor.masked_fill(mask.view_as(tensor), 0)
            zeros += count
        total = sum(tensor.numel() for tensor in matrices.values())
        line = f"zeros: {zeros:,} of {total:,} entries in {len(matrices)} matrices, {self.options.scope}"
        return Compressed(replace(checkpoint, tensors=tensors), (line,))
