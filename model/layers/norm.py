"""Normalisation: LayerNorm from torch, and RMSNorm (arXiv 1910.07467)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from model.config import ModelConfig

__all__ = ["RMSNorm", "build_norm"]


class RMSNorm(nn.Module):
    """x / rms(x) * weight over the last axis; statistics in fp32, the gain applied in the input's type."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., width] to the same shape."""
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * scaled.to(x.dtype)


def build_norm(config: ModelConfig, width: int) -> nn.Module:
    """Build the norm that the configuration names, over `width` features."""
    if config.norm == "rms":
        return RMSNorm(width, config.eps)
    return nn.LayerNorm(width, eps=config.eps, bias=config.bias.norm)
