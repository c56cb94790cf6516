"""Prediction of corrupted tokens at their own positions (arXiv 1810.04805)."""

from typing import ClassVar

from torch import nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._head import VocabularyHead


class MaskedLM(VocabularyHead):
    """A projection after a linear map, an activation and a norm; without these or its bias where a key says so."""

    target: ClassVar = "masked_lm"
    settings: ClassVar = VocabularyHead.settings | {"transform", "bias", "label_chunk"}

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        options = config.heads[self.key()]
        super().__init__(config, tokens, vocab_size, transformed=options.transform, biased=options.bias)
