"""The token table and the projection back onto the vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.errors import ConfigurationError

__all__ = ["VocabularyProjection", "padded_rows"]


class VocabularyProjection(nn.Module):
    """Scores over the vocabulary, from a separate weight or the token embedding's.

    A tied weight is the same `Parameter` in both modules. Each reads it in its own forward only, so that ZeRO stage 3
    gathers it for each; and the parameter, its gradient and its optimizer state exist once.

    Raises:
        ConfigurationError: the token embedding has another width than the states.
    """

    def __init__(self, width: int, vocab_size: int, *, rows: int, tied_to: nn.Embedding | None, bias: bool) -> None:
        super().__init__()
        if tied_to is not None and tied_to.embedding_dim != width:
            raise ConfigurationError(
                f"model.emb_dim: a head tied to embeddings of width {tied_to.embedding_dim} reads states of width "
                f"{width}; set model.tied to false, or emb_dim to {width}"
            )
        self.weight = nn.Parameter(torch.empty(rows, width)) if tied_to is None else tied_to.weight
        self.bias = nn.Parameter(torch.zeros(rows)) if bias else None
        self.vocab_size = vocab_size

    def forward(self, hidden: Tensor) -> Tensor:
        """Map [..., width] to [..., vocab_size]; padding rows of the table are cut off, so that none can win."""
        # The cut comes after the product: the padded width multiplies faster.
        return F.linear(hidden, self.weight, self.bias)[..., : self.vocab_size]


def padded_rows(vocab_size: int, multiple: int) -> int:
    """Return the rows of the table: the vocabulary rounded up to a multiple.

    Example:
        >>> padded_rows(50257, 64)
        50304
    """
    return -(-vocab_size // multiple) * multiple
