"""Prediction of corrupted tokens at their own places (arXiv 1810.04805)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from model.config import ModelConfig
from model.heads import Head
from model.layers.activation import ACTIVATIONS
from model.layers.norm import build_norm
from model.layers.vocabulary import VocabularyProjection
from model.loss import chunked_cross_entropy_sum, count_labels, gather_labels

__all__ = ["MaskedLM"]


class MaskedLM(Head):
    """The vocabulary with a bias, after a linear map, an activation and a norm unless `transform` is off.

    Only labelled places reach the projection.
    """

    target: ClassVar = "masked_lm"
    settings: ClassVar = frozenset({"normalise", "transform", "label_chunk"})
    needs: ClassVar = frozenset({"label_index", "label_ids"})

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__()
        transformed = config.heads[self.key()].transform
        width = config.output_width if transformed else config.dim
        self.transform = nn.Linear(config.dim, width, bias=config.bias.head) if transformed else nn.Identity()
        self.act = ACTIVATIONS[config.activation] if transformed else nn.Identity()
        self.norm = build_norm(config, width) if transformed else nn.Identity()
        extra = width - config.embedding_width if transformed and config.tied else 0
        self.projection = VocabularyProjection(
            width - extra,
            vocab_size,
            rows=tokens.num_embeddings,
            tied_to=tokens if config.tied else None,
            bias=True,
            extra=extra,
        )

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the summed cross entropy at the labelled places."""
        labels = gather_labels(hidden, tensors)
        return chunked_cross_entropy_sum(self.logits, labels, self.label_chunk)

    def counted(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return what rows with weight add to the divisor, by default their labels."""
        return count_labels(tensors)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return scores: [..., dim] to [..., vocab_size]."""
        scores: Tensor = self.projection(self.norm(self.act(self.transform(hidden))))
        return scores
