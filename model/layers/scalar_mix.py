"""One vector a token from those of all layers (arXiv 1802.05365 §3.2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from clozeline.model.parameters.initial_values import Draw, constant


class ScalarMix(nn.Module):
    """gain x the sum over layers of softmax(weights)[layer] x state; at first their mean.

    Args:
        layers: number of layers.
        normalise: each layer is normalised first, over all features of all real places of the batch.
    """

    def __init__(self, layers: int, *, normalise: bool = False) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.gain = nn.Parameter(torch.ones(1))
        self.normalise = normalise

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        """Return the laws of the parameters."""
        return {"weights": constant(0.0), "gain": constant(1.0)}

    def forward(self, states: Sequence[Tensor], real: Tensor | None = None) -> Tensor:
        """Return [B, T, width] from a state [B, T, width] a layer; `real` [B, T] bool, false at padding, normalises."""
        if self.normalise:
            assert real is not None, "the places that are normalised"
            states = [_normalize(state, real[..., None]) for state in states]
        shares = self.weights.softmax(0)
        return self.gain * torch.einsum("l,l...->...", shares, torch.stack(list(states)))


def _normalize(state: Tensor, real: Tensor) -> Tensor:
    """Return the state with mean 0 and variance 1 over its real places."""
    count = real.sum() * state.shape[-1]
    mean = (state * real).sum() / count
    variance = ((state - mean) * real).square().sum() / count
    return (state - mean) * torch.rsqrt(variance + 1e-12)
