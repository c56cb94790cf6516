"""The residual connection, with its norm before or after the block."""

from typing import Any

from torch import Tensor, nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.norm import build_norm


class Residual(nn.Module):
    """pre: x + dropout(body(norm(x))); post: norm(x + dropout(body(x))). Not `normed`: the norm is the identity."""

    def __init__(self, config: ModelConfig, body: nn.Module, *, normed: bool = True) -> None:
        super().__init__()
        self.body = body
        self.dim = config.dim
        self.norm = build_norm(config, config.dim) if normed else nn.Identity()
        self.dropout = nn.Dropout(config.dropout.hidden)
        self.before = config.norm_place == "pre"

    def forward(self, x: Tensor, *rest: Any) -> Tensor:
        """Map [B, T, dim] to the same shape; `rest` goes to the body unchanged."""
        if self.before:
            return x + self.dropout(self.body(self.norm(x), *rest))
        return self.norm(x + self.dropout(self.body(x, *rest)))
