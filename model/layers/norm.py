"""Normalization: LayerNorm of torch, RMSNorm (arXiv 1910.07467), NoNorm (arXiv 2004.02984)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.parameters.initial_values import Draw, constant


class NoNorm(nn.Module):
    """x * weight + bias over the last axis: a LayerNorm without statistics."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + self.bias


class RMSNorm(nn.Module):
    """x / rms(x) * weight over the last axis; statistics in fp32, gain in the input's dtype."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype in (torch.float32, torch.float64):
            return functional.rms_norm(x, x.shape[-1:], self.weight, self.eps)
        # torch applies the gain before it rounds, published models after
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * scaled.to(x.dtype)


NORMS = (nn.LayerNorm, RMSNorm, NoNorm)


class OneRMSNorm(RMSNorm):
    """RMSNorm with the gain 1 + weight; computed in fp32, rounded last (Gemma, arXiv 2403.08295).

    The 1 is not added to the stored weight: in floating point (1 + w) - 1 is not w, and weight
    decay draws the gain to 1 instead of 0.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__(width, eps)
        nn.init.zeros_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype in (torch.float32, torch.float64):
            return functional.rms_norm(x, x.shape[-1:], 1 + self.weight, self.eps)
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (scaled * (1 + self.weight.float())).to(x.dtype)

    @staticmethod
    def initial_weights(usual: Draw) -> dict[str, Draw]:
        """Return a weight of 0, which is a gain of 1."""
        return {"weight": constant(0.0)}


def build_norm(config: ModelConfig, width: int) -> nn.Module:
    """Build the norm that the configuration names, over `width` features."""
    if config.norm != "layer":
        return (RMSNorm if config.norm == "rms" else OneRMSNorm)(width, config.eps)
    return nn.LayerNorm(width, eps=config.eps, bias=config.bias.norm)
