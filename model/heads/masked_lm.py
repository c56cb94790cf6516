"""Prediction of corrupted tokens at their own positions (arXiv 1810.04805)."""

from typing import ClassVar

from clozeline.configuration.config import config_class
from clozeline.model.configuration.head import VocabularyOptions
from clozeline.model.heads._head import VocabularyHead


class MaskedLMHead(VocabularyHead):
    """A projection after a linear map, an activation and a norm; without these or its bias where a key says so."""

    target: ClassVar = "masked_lm"

    @config_class
    class Options(VocabularyOptions):
        """Keys of the head of masked tokens."""

        compared: ClassVar = ("transform", *VocabularyOptions.compared)

        transform: bool = True
        """A linear map, activation and norm before the projection."""

    options: Options

    @property
    def is_transformed(self) -> bool:
        return self.options.transform

    @property
    def is_biased(self) -> bool:
        return self.options.bias
