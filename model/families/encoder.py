"""One bidirectional stack: BERT (arXiv 1810.04805) and its kin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from model.config import ModelConfig
from model.errors import BatchError
from model.families import Family
from model.flops import stack_flops
from model.layers.documents import batch_documents
from model.layers.masks import batch_padding, pair_mask
from model.layers.stack import Stack, layer_states

__all__ = ["Encoder"]

_MODE_TYPES = 6
"""Segment types that tell UniLM's modes apart."""


class Encoder(Family):
    """A bidirectional stack: every token sees its whole row, or with `document_ids` its document.

    With `attention`, each row is read in one of UniLM's four modes (arXiv 1905.03197). With `left_padding` [B], a row's
    tokens begin after as many places of padding. With `languages`, each token has its language's vector added (XLM,
    arXiv 1901.07291).
    """

    architecture: ClassVar = "encoder"
    needs: ClassVar = frozenset({"input_ids", "position_ids", "lengths"})
    left_padding: ClassVar = True
    layered: ClassVar = True

    def __init__(self, config: ModelConfig, rows: int) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(rows, config.embedding_width)
        self.languages = nn.Embedding(config.languages, config.embedding_width) if config.languages else None
        self.stack = Stack(config, config.layers)

    def forward(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return hidden states [B, T, dim]."""
        return self.read(self.stack, self.tokens(tensors["input_ids"]), tensors)

    def read(self, stack: Stack, vectors: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return a stack's hidden states [B, T, dim] of rows with these token vectors [B, T, emb_dim]."""
        padding = batch_padding(tensors)
        types = tensors.get("type_ids")
        if self.languages is not None and "languages" in tensors:
            vectors = vectors + self.languages(tensors["languages"])
        pairs, documents = self._modes(tensors), batch_documents(tensors)
        hidden: Tensor = stack(vectors, tensors["position_ids"], types, padding, pairs=pairs, documents=documents)
        return hidden

    def _modes(self, tensors: Mapping[str, Tensor]) -> Tensor | None:
        """Return which places see which by UniLM's modes, [B, 1, T, T] bool, or None where rows have no modes."""
        if "attention" not in tensors:
            return None
        if 0 < self.config.type_vocab_size < _MODE_TYPES:
            raise BatchError(
                f"batch: rows of several modes of attention have segment types up to {_MODE_TYPES - 1}, the model has "
                f"a table of {self.config.type_vocab_size}; expected model.type_vocab_size {_MODE_TYPES} or more, or 0 "
                "for none"
            )
        return pair_mask(tensors)

    def layer_states(self, tensors: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the states [B, T, dim] of the embeddings and of every layer."""
        return layer_states(self.stack, lambda: self(tensors))

    def flops(self, tokens: int, target_tokens: int) -> float:
        """Return the floating-point operations of one row's forward; `target_tokens` is 0."""
        return stack_flops(self.config, tokens)
