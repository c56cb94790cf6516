"""Next-token prediction: a projection onto the vocabulary, in one of three forms."""

from typing import ClassVar

from torch import Tensor, nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._head import VocabularyHead


class Lm(VocabularyHead):
    """A linear map, one with a bias, or BERT's head, as `projection` says; tied to the token embedding or not."""

    target: ClassVar = "lm"
    settings: ClassVar = VocabularyHead.settings | {"projection", "bias", "label_chunk"}

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        options = config.heads[self.key()]
        form, biased = options.projection, options.projection != "linear" and options.bias
        super().__init__(config, tokens, vocab_size, transformed=form == "transformed", biased=biased)
        self.scale = config.dim**-0.5 if config.out_scale else 1.0

    def logits(self, hidden: Tensor) -> Tensor:
        return super().logits(hidden * self.scale if self.scale != 1.0 else hidden)
