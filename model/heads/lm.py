"""Next-token prediction: a projection onto the vocabulary, in one of three forms."""

from typing import ClassVar, Literal

from torch import Tensor, nn

from clozeline.configuration.config import config_class
from clozeline.model.configuration.head import VocabularyOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._head import VocabularyHead


class LmHead(VocabularyHead):
    """The head of causal language models: `projection` chooses among three forms.

    It may be tied to the token embedding.
    """

    target: ClassVar = "lm"

    @config_class
    class Options(VocabularyOptions):
        """Keys of the next-token head."""

        projection: Literal["linear", "biased", "transformed"] = "linear"
        """linear: one linear map onto the vocabulary (GPT-2, Llama, T5). biased: with a bias per
        score, as BART's `final_logits_bias`. transformed: BERT's head, which is a linear map,
        activation and norm before a projection with a bias."""

    options: Options

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__(config, tokens, vocab_size)
        self.scale = config.dim**-0.5 if config.out_scale else 1.0

    @property
    def is_transformed(self) -> bool:
        return self.options.projection == "transformed"

    @property
    def is_biased(self) -> bool:
        return self.options.projection != "linear" and self.options.bias

    def logits(self, hidden: Tensor) -> Tensor:
        return super().logits(hidden * self.scale if self.scale != 1.0 else hidden)
