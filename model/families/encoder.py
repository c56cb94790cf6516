"""One bidirectional stack: BERT (arXiv 1810.04805) and its kin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from model.config import ModelConfig
from model.families import Family
from model.flops import layer_flops
from model.layers.stack import Stack
from model.masks import document_mask, padding_mask

__all__ = ["Encoder"]


class Encoder(Family):
    """Every token sees every token of its row; with `document_ids`, of its document."""

    needs: ClassVar = frozenset({"input_ids", "position_ids", "lengths"})

    def __init__(self, config: ModelConfig, rows: int) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(rows, config.embedding_width)
        self.stack = Stack(config, config.layers)

    def forward(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Hidden states [B, T, dim]."""
        ids = tensors["input_ids"]
        padding = padding_mask(tensors["lengths"], ids.shape[1], ids.device)
        documents = document_mask(tensors["document_ids"]) if "document_ids" in tensors else None
        vectors, types = self.tokens(ids), tensors.get("type_ids")
        hidden: Tensor = self.stack(vectors, tensors["position_ids"], types, padding, documents=documents)
        return hidden

    def flops(self, tokens: int, target_tokens: int) -> float:
        """Floating-point operations of one row's forward; there is no second row."""
        return self.config.layers * layer_flops(self.config, tokens, tokens)
