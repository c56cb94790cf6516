"""Tell a repeated layer which step it computes (Universal Transformer, arXiv 1807.03819)."""

import torch
from torch import Tensor

from clozeline.model.layers.position import frequencies


def add_step_signal(x: Tensor, step: int, positions: Tensor | None) -> Tensor:
    """Return the input [B, T, dim] of a step, counted from 0: the states and the wave of the step.

    `positions` [B or 1, T, dim] are sinusoidal, if the model has them. The embeddings have added
    those of the first step.
    """
    dim = x.shape[-1]
    # sines in even and cosines in odd columns
    angles = (step + 1) * frequencies(dim + dim % 2, 10000.0, x.device)
    signal = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten()[:dim]
    x = x + signal.to(x.dtype)
    return x + positions.to(x.dtype) if positions is not None and step else x
