"""Next-token prediction: one linear map onto the vocabulary."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from model.config import ModelConfig
from model.heads._label_head import LabelHead
from model.layers.vocabulary import VocabularyProjection

__all__ = ["Lm"]


class Lm(LabelHead):
    """Tied to the token embedding or not, no bias: GPT-2, Llama, T5, BART."""

    target: ClassVar = "lm"
    settings: ClassVar = LabelHead.settings | {"label_chunk"}

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__()
        self.projection = VocabularyProjection(config.dim, vocab_size, tokens, tied=config.tied, bias=False)
        self.scale = config.dim**-0.5 if config.out_scale else 1.0

    def logits(self, hidden: Tensor) -> Tensor:
        """Return scores: [..., dim] to [..., vocab_size]."""
        scores: Tensor = self.projection(hidden * self.scale if self.scale != 1.0 else hidden)
        return scores
