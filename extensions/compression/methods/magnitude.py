"""Set the smallest weights to zero (arXiv 1506.02626)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clozeline.extensions.compression.methods._method import Batch, Compressed, Method
from clozeline.extensions.compression.selection import SparsityOptions, choose_share, find_matrices
from clozeline.model.checkpoints.checkpoint import Checkpoint


class MagnitudeMethod(Method):
    """Set the entries of smallest |w| to zero in the linear maps of the layers.

    Embeddings, norms and heads stay unchanged.

    Dense kernels multiply zeros like any number, so this saves neither time nor bytes on disk.
    """

    Options = SparsityOptions
    options: SparsityOptions
    published_result = (
        "BERT with 30 % to 40 % zeros in these matrices has the same loss and transfer (2002.08307)"
    )

    def compress(self, checkpoint: Checkpoint, batches: Sequence[Batch]) -> Compressed:
        share = self.options.sparsity
        scope = self.options.scope
        tensors = dict(checkpoint.tensors)
        zeros = 0
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        matrices = find_matrices(shapes, "method=magnitude", checkpoint.config.family)
        # matrices that do not compete are masked one at a time, to save memory
        for group in [matrices] if scope == "global" else [[name] for name in matrices]:
            magnitudes = (tensors[name].abs().flatten() for name in group)
            masks = choose_share(
                magnitudes, [tensors[name].numel() for name in group], share, scope
            )
            for name, mask in zip(group, masks, strict=True):
                tensors[name] = tensors[name].masked_fill(mask.view_as(tensors[name]), 0)
                zeros += int(mask.sum())

        total = sum(tensors[name].numel() for name in matrices)
        line = f"zeros: {zeros:,} of {total:,} entries in {len(matrices)} matrices, {scope}"
        return Compressed(replace(checkpoint, tensors=tensors), (line,))
