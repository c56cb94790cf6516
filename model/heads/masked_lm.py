"""Prediction of corrupted tokens at their own positions (arXiv 1810.04805)."""

from typing import ClassVar

from torch import nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._vocabulary_head import VocabularyHead


class MaskedLM(VocabularyHead):
    """A projection with a bias, after a linear map, an activation and a norm unless `transform` is off."""

    target: ClassVar = "masked_lm"
    settings: ClassVar = VocabularyHead.settings | {"transform", "label_chunk"}

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__(config, tokens, vocab_size, transformed=config.heads[self.key()].transform, biased=True)
