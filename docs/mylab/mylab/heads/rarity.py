"""Prediction of how rare the token of each label is."""

import torch
from torch.nn import functional as F

from clozeline.columns import IGNORED
from clozeline.configuration.config import config_class
from clozeline.model.configuration.head import LabelOptions
from clozeline.model.heads import LabelHead
from clozeline.model.loss import count_labels, gather_labels, weighted_labels
from mylab.columns import LEVELS, RAREST, RARITY


class RarityHead(LabelHead):
    """Predict how rare the token of each label is, from the levels that `GradedTokens` stores."""

    target = "rarity"
    reads = (*LabelHead.reads, *RARITY.fields, *RAREST.fields)

    @config_class
    class Options(LabelOptions):
        smoothing: float = 0.0
        """probability that is spread evenly over all levels"""
        least: int = 0
        """lowest level: rows whose rarest label is below it have no loss"""

    def __init__(self, config, tokens, vocab_size):
        super().__init__(config)
        self.classifier = torch.nn.Linear(config.dim, LEVELS)

    def forward(self, hidden, tensors):
        labels = gather_labels(hidden, self._grade(tensors))
        losses = F.cross_entropy(
            self.logits(labels.states).float(),
            labels.ids,
            reduction="none",
            label_smoothing=self.options.smoothing,
        )
        return (losses if labels.weights is None else losses * labels.weights).sum()

    def divisor(self, tensors):
        return count_labels(self._grade(tensors))

    def labels(self, tensors):
        return weighted_labels(self._grade(self._weigh(tensors)))

    def logits(self, hidden):
        return self.classifier(hidden)

    def _grade(self, tensors):
        """Return the batch with levels as labels; rows without a rare label are ignored."""
        rows = tensors["label_index"] // tensors["input_ids"].shape[1]
        too_common = tensors["rarest"][rows] < self.options.least
        ignored = too_common | (tensors["label_ids"] == IGNORED)
        return {**tensors, "label_ids": tensors["rarity"].masked_fill(ignored, IGNORED)}
