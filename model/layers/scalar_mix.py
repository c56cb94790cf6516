"""A learned mix of the states of all layers (arXiv 1802.05365 §3.2)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from clozeline.model.parameters.initial_values import Draw, constant


class ScalarMix(nn.Module):
    """gain x sum over layers of softmax(weights)[layer] x state; at first the mean.

    `normalize` normalizes each layer first, over all features of all real positions of the batch.
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
            # mean 0 and variance 1 of each layer over its real positions
            assert real is not None
            inside, count = real[..., None], real.sum() * states[0].shape[-1]
            centered = [state - (state * inside).sum() / count for state in states]
            variances = [(state * inside).square().sum() / count for state in centered]
            pairs = zip(centered, variances, strict=True)
            states = [state * torch.rsqrt(variance + 1e-12) for state, variance in pairs]
        return self.gain * torch.einsum("l,l...->...", self.weights.softmax(0), torch.stack(list(states)))
