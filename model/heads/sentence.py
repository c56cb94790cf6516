"""Classify segment pairs: next sentence (arXiv 1810.04805), sentence order (arXiv 1909.11942)."""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from clozeline.columns import IGNORED, BatchField
from clozeline.configuration.config import config_class
from clozeline.model.configuration.head import HeadOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads import Head
from clozeline.model.layers.pooling import Pooler
from clozeline.model.loss import cross_entropy_sum, row_labels


class SentenceHead(Head):
    """A pooler and a linear map onto two classes: 0 in the original order, 1 otherwise."""

    target: ClassVar = "sentence"
    unit: ClassVar = "row"
    label = "sentence_label"
    reads: ClassVar = (BatchField("sentence_label", "row", filler=IGNORED, below=2),)

    @config_class
    class Options(HeadOptions):
        """Keys of the segment-pair head."""

        transform: bool = True
        """A linear map and tanh before the projection."""

    options: Options

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__(config)
        self.pooler = Pooler(config.dim, transform=self.options.transform)
        self.classifier = nn.Linear(config.dim, 2)

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        return cross_entropy_sum(self.logits(hidden), row_labels(tensors, "sentence_label"))

    def logits(self, hidden: Tensor) -> Tensor:
        """Return scores of rows: [B, T, dim] to [B, 2]."""
        return self.classifier(self.pooler(hidden))
