"""Prediction of corrupted tokens at their positions (arXiv 1810.04805)."""

from typing import ClassVar

from clozeline.configuration.config import config_class
from clozeline.model.configuration.head import VocabularyOptions
from clozeline.model.heads._head import VocabularyHead


class MaskedLMHead(VocabularyHead):
    """BERT's head: a linear map, an activation and a norm, then the projection onto the vocabulary.

    Options turn off the part before the projection, or its bias.
    """

    target: ClassVar = "masked_lm"

    @config_class
    class Options(VocabularyOptions):
        """Keys of the masked-token head."""

        transform: bool = True
        """A linear map, an activation and a norm before the projection."""

    options: Options

    @property
    def is_transformed(self) -> bool:
        return self.options.transform

    @property
    def is_biased(self) -> bool:
        return self.options.bias
