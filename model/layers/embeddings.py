"""The input of a stack: token vectors plus positions and segment types, norm, dropout, and a projection."""

import math

from torch import Tensor, nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.norm import build_norm
from clozeline.model.layers.position import Position


class Embeddings(nn.Module):
    """Everything between the token table and the first layer; two stacks may share the table but not this module."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.embedding_width
        self.types = nn.Embedding(config.type_vocab_size, width) if config.type_vocab_size else None
        self.norm = build_norm(config, width) if config.emb_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout.embedding)
        self.project = nn.Linear(width, config.dim) if width != config.dim else nn.Identity()
        self.scale = math.sqrt(config.dim) if config.emb_scale else 1.0

    def forward(self, vectors: Tensor, position: Position, positions: Tensor, types: Tensor | None) -> Tensor:
        """Return [B, T, dim] from token vectors [B, T, emb_dim], position ids and type ids (None: all 0) [B, T]."""
        x = vectors * self.scale if self.scale != 1.0 else vectors
        if self.types is not None:
            x = x + self.types(positions.new_zeros(positions.shape) if types is None else types)
        added = position.embed(positions)
        if added is not None:
            x = x + added.to(x.dtype)
        return self.project(self.dropout(self.norm(x)))
