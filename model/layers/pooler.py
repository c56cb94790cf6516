"""BERT's pooler: one vector per sequence, from the state of its first position."""

import torch
from torch import Tensor, nn


class Pooler(nn.Module):
    """tanh(Linear(x)) of the state at [CLS] (arXiv 1810.04805); without a transform the state itself."""

    def __init__(self, width: int, *, transform: bool = True) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width) if transform else None

    def forward(self, hidden: Tensor) -> Tensor:
        """Map [B, T, width] to [B, width]."""
        first = hidden[:, 0]
        return first if self.dense is None else torch.tanh(self.dense(first))
