"""Normalization: LayerNorm from torch, RMSNorm (arXiv 1910.07467), and NoNorm (arXiv 2004.02984)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from clozeline.model.configuration.model_config import ModelConfig


class NoNorm(nn.Module):
    """x * weight + bias over the last axis: the parameters of a LayerNorm without its statistics."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + self.bias


class RMSNorm(nn.Module):
    """x / rms(x) * weight over the last axis; statistics in fp32, the gain applied in the input's type."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype in (torch.float32, torch.float64):
            return functional.rms_norm(x, x.shape[-1:], self.weight, self.eps)
        wide = x.float()  # torch's own applies the gain before it rounds, published models after that
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * scaled.to(x.dtype)


def build_norm(config: ModelConfig, width: int) -> nn.Module:
    """Build the norm that the configuration names, over `width` features."""
    if config.norm == "rms":
        return RMSNorm(width, config.eps)
    return nn.LayerNorm(width, eps=config.eps, bias=config.bias.norm)
