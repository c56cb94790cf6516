"""Prediction of corrupted tokens at their own places (arXiv 1810.04805)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from model.config import ModelConfig
from model.heads._label_head import LabelHead
from model.layers.activation import ACTIVATIONS
from model.layers.norm import build_norm
from model.layers.vocabulary import VocabularyProjection

__all__ = ["MaskedLM"]


class MaskedLM(LabelHead):
    """The vocabulary with a bias, after a linear map, an activation and a norm unless `transform` is off."""

    target: ClassVar = "masked_lm"
    settings: ClassVar = LabelHead.settings | {"transform", "label_chunk"}

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__()
        transformed = config.heads[self.key()].transform
        width = config.output_width if transformed else config.dim
        self.transform = nn.Linear(config.dim, width, bias=config.bias.head) if transformed else nn.Identity()
        self.act = ACTIVATIONS[config.activation] if transformed else nn.Identity()
        self.norm = build_norm(config, width) if transformed else nn.Identity()
        extra = width - config.embedding_width if transformed and config.tied else 0
        self.projection = VocabularyProjection(
            width - extra, vocab_size, tokens, tied=config.tied, bias=True, extra=extra
        )

    def logits(self, hidden: Tensor) -> Tensor:
        """Return scores: [..., dim] to [..., vocab_size]."""
        scores: Tensor = self.projection(self.norm(self.act(self.transform(hidden))))
        return scores
