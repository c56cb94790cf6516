"""Next-token prediction: one linear map onto the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from model.config import ModelConfig
from model.heads import Head
from model.layers.vocabulary import VocabularyProjection
from model.loss import chunked_cross_entropy_sum, count_labels, gather_labels

__all__ = ["Lm"]


class Lm(Head):
    """Tied to the token embedding or not, no bias: GPT-2, Llama, T5, BART."""

    target: ClassVar = "lm"
    settings: ClassVar = frozenset({"normalise", "label_chunk"})
    needs: ClassVar = frozenset({"label_index", "label_ids"})

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__()
        self.projection = VocabularyProjection(
            config.dim, vocab_size, rows=tokens.num_embeddings, tied_to=tokens if config.tied else None, bias=False
        )
        self.scale = config.dim**-0.5 if config.out_scale else 1.0

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the summed cross entropy at the labelled places."""
        labels = gather_labels(hidden, tensors)
        return chunked_cross_entropy_sum(self.logits, labels, self.label_chunk)

    def counted(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return what rows with weight add to the divisor, by default their labels."""
        return count_labels(tensors)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return scores: [..., dim] to [..., vocab_size]."""
        scores: Tensor = self.projection(hidden * self.scale if self.scale != 1.0 else hidden)
        return scores
