"""Classify labeled positions, such as words at their first token (arXiv 1810.04805 §5.3)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor, nn

from clozeline.columns import LABEL_IDS, LABEL_INDEX
from clozeline.configuration.config import config_class
from clozeline.model.configuration.head import (
    ClassifierOptions,
    ClassOptions,
    LabelOptions,
    label_keys,
)
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._head import LabelHead
from clozeline.model.layers.pooling import Classifier
from clozeline.model.loss import gather_labels


class TaggingHead(LabelHead):
    """Cross entropy of the class at each labeled position; `label_ids` are class indices.

    Positions without a label, such as the other tokens of a word, have no loss.
    `model.decoding.tags` decodes the scores.
    """

    target: ClassVar = "tagging"
    reads: ClassVar = (LABEL_INDEX, replace(LABEL_IDS, below="classes"))

    @config_class
    class Options(ClassifierOptions, ClassOptions, LabelOptions):
        """Keys of the tagging head."""

        def __post_init__(self) -> None:
            ClassOptions.__post_init__(self)
            ClassifierOptions.__post_init__(self)

    figures: ClassVar = {"accuracy": "higher"}
    class_ending: ClassVar = "ForTokenClassification"
    options: Options

    @classmethod
    def keys_of_class(
        cls, read_labels: Callable[[], tuple[str, ...]], problem: str | None
    ) -> dict[str, Any] | None:
        return label_keys(read_labels())

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__(config)
        self.classifier = Classifier(
            config, self.options, self.options.require_classes(self.key(), 2)
        )

    def logits(self, hidden: Tensor) -> Tensor:
        return self.classifier(hidden)

    def metrics(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the number of correct labels, weighted as in the loss."""
        labels = gather_labels(hidden, tensors)
        correct = self.logits(labels.states).argmax(-1) == labels.ids
        return {"accuracy": (correct * labels.in_loss).sum()}
