"""A learned mix of the states of all layers (arXiv 1802.05365 §3.2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from clozeline.model.parameters.initial_values import Draw, constant


class ScalarMix(nn.Module):
    """gain x sum over layers of softmax(weights)[layer] x state; at first the mean.

    Args:
        layers: number of layers.
        normalize: normalize each layer first, over all features of all real positions of the batch.
    """

    def __init__(self, layers: int, *, normalize: bool = False) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.gain = nn.Parameter(torch.ones(1))
        self.normalize = normalize

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        return {"weights": constant(0.0), "gain": constant(1.0)}

    def forward(self, states: Sequence[Tensor], real: Tensor | None = None) -> Tensor:
        """Mix one state [B, T, width] per layer; `normalize` needs `real` [B, T] bool, False at padding."""
        if self.normalize:
            assert real is not None
            states = [_normalize(state, real[..., None]) for state in states]
        shares = self.weights.softmax(0)
        return self.gain * torch.einsum("l,l...->...", shares, torch.stack(list(states)))


def _normalize(state: Tensor, real: Tensor) -> Tensor:
    count = real.sum() * state.shape[-1]
    mean = (state * real).sum() / count
    variance = ((state - mean) * real).square().sum() / count
    return (state - mean) * torch.rsqrt(variance + 1e-12)
