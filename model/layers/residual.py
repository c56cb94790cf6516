"""The residual connection, with norms before or after the block, or on its branch."""

from typing import Any

from torch import Tensor, nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.norm import build_norm


class Residual(nn.Module):
    """A residual block with its norms where `norm_place` says; if not `normed`, without the one before the body."""

    def __init__(self, config: ModelConfig, body: nn.Module, *, normed: bool = True) -> None:
        super().__init__()
        place = config.norm_place
        self.body = body
        self.dim = config.dim
        self.norm = build_norm(config, config.dim) if normed and place != "branch" else nn.Identity()
        self.branch_norm = build_norm(config, config.dim) if place in ("both", "branch") else nn.Identity()
        self.dropout = nn.Dropout(config.dropout.hidden)
        self.before = place != "post"

    def forward(self, x: Tensor, *rest: Any) -> Tensor:
        """Map [B, T, dim] to the same shape; `rest` goes to the body unchanged."""
        if self.before:
            return x + self.branch(self.norm(x), *rest)
        return self.norm(x + self.dropout(self.body(x, *rest)))

    def branch(self, states: Tensor, *rest: Any) -> Tensor:
        """Return what the block adds to its input, from the input after the norm."""
        return self.dropout(self.branch_norm(self.body(states, *rest)))
