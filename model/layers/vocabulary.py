"""Both ends of a model: the input of a stack, and the projection onto the vocabulary."""

import math
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.activation import soft_cap
from clozeline.model.layers.norm import build_norm
from clozeline.model.layers.position import Position


class Embeddings(nn.Module):
    """Everything between the token table and the first layer.

    Two stacks may share the table, but not this module.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.embedding_width
        self.types = nn.Embedding(config.type_vocab_size, width) if config.type_vocab_size else None
        self.norm = build_norm(config, width) if config.emb_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout.embedding)
        self.project = nn.Linear(width, config.dim) if width != config.dim else nn.Identity()
        self.scale = math.sqrt(config.dim) if config.emb_scale else 1.0

    def forward(
        self, vectors: Tensor, position: Position, positions: Tensor, types: Tensor | None
    ) -> Tensor:
        """Return [B, T, dim] from token vectors [B, T, emb_dim], position ids and type ids [B, T].

        types None: all 0.
        """
        x = vectors * self.scale if self.scale != 1.0 else vectors
        if self.types is not None:
            x = x + self.types(positions.new_zeros(positions.shape) if types is None else types)
        added = position.embed(positions)
        if added is not None:
            x = x + added.to(x.dtype)
        return self.project(self.dropout(self.norm(x)))


class VocabularyProjection(nn.Module):
    """Scores over the vocabulary, from a separate weight or that of the token embedding.

    A tied weight is the same `Parameter` in both modules. Each reads it only in its own forward, so
    ZeRO stage 3 gathers it for each, while the parameter, its gradient and its optimizer state
    exist once. The weight reads `width` features of the states; separate columns read `extra`
    further ones (MobileBERT, arXiv 2004.02984).
    """

    def __init__(
        self,
        width: int,
        vocab_size: int,
        tokens: nn.Embedding,
        *,
        tied: bool,
        bias: bool,
        extra: int = 0,
        softcap: float | None = None,
    ) -> None:
        super().__init__()
        rows = tokens.num_embeddings

        if tied and tokens.embedding_dim != width:
            raise ConfigurationError(
                f"model.emb_dim: a head tied to embeddings of width {tokens.embedding_dim} cannot "
                f"read states of width {width}; set model.tied to false, or emb_dim to {width}"
            )

        self.weight = tokens.weight if tied else nn.Parameter(torch.empty(rows, width))
        self.bias = nn.Parameter(torch.zeros(rows)) if bias else None
        self.extra = nn.Linear(extra, rows, bias=False) if extra else None
        self.vocab_size = vocab_size
        self.softcap = softcap

    @classmethod
    def of_states(
        cls,
        config: ModelConfig,
        width: int,
        tokens: nn.Embedding,
        size: int,
        *,
        bias: bool,
        wider: bool = True,
    ) -> Self:
        """Build the projection of states, which may be `wider` than a tied table."""
        extra = width - config.embedding_width if config.tied and wider else 0
        softcap = config.final_logit_softcapping
        return cls(
            width - extra, size, tokens, tied=config.tied, bias=bias, extra=extra, softcap=softcap
        )

    def forward(self, hidden: Tensor) -> Tensor:
        """Map [..., width + extra] to [..., vocab_size], without the padding rows of the table."""
        # cut after the product: the padded width multiplies faster
        width = self.weight.shape[1]
        scores = F.linear(
            hidden if self.extra is None else hidden[..., :width], self.weight, self.bias
        )
        if self.extra is not None:
            scores = scores + self.extra(hidden[..., width:])
        return soft_cap(scores[..., : self.vocab_size], self.softcap)


def table_rows(vocab_size: int, multiple: int) -> int:
    """Return the number of table rows: the vocabulary size rounded up to a multiple.

    Example:
        >>> table_rows(50257, 64)
        50304
    """
    return -(-vocab_size // multiple) * multiple
