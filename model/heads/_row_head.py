"""The base of heads that predict from one vector per row."""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._head import Head
from clozeline.model.layers.pooling import PAIR_FEATURES, Classifier, pool


class RowHead(Head):
    """A head that pools the states of a row and maps the vector to scores."""

    unit: ClassVar = "row"
    left_padding: ClassVar = True
    settings: ClassVar[frozenset[str]] = Classifier.settings | {"pool"}

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__()
        self.options = config.heads[self.key()]
        self.pool = self.options.pool_in(config.architecture)
        if (self.pool == "decoder_last") != (config.architecture == "encoder_decoder"):
            raise ConfigurationError(
                f"model.heads.{self.key()}.pool: decoder_last is the pool of an encoder_decoder, which has no other; "
                f"got {self.pool} for {config.architecture}: remove the key"
            )
        features = PAIR_FEATURES if self.pool == "pair" else 1
        self.classifier = Classifier(config, self.options, self.outputs(), features * config.dim)

    @property
    def flops_unit(self) -> str:
        return "token" if self.pool == "late" else self.unit

    def outputs(self) -> int:
        """Return the number of scores of a row."""
        return 1

    def scores(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return scores of rows: [B, T, dim] to [B, scores]."""
        if self.pool == "late":
            return pool("mean", self.logits(hidden), tensors)
        return self.logits(pool(self.pool, hidden, tensors))

    def logits(self, hidden: Tensor) -> Tensor:
        """Return scores of pooled vectors: [B, dim] to [B, scores]."""
        return self.classifier(hidden)
