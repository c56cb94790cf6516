"""Three algorithms of one's own for the trainer: two heads and an optimizer."""

import torch
from torch.nn import functional as F

from clozeline.columns import IGNORED
from clozeline.configuration.config import config_class
from clozeline.model.configuration.head import LabelOptions
from clozeline.model.heads import LabelHead
from clozeline.model.heads.classification import Classification
from clozeline.model.loss import count_labels, gather_labels, label_ids_with_loss, row_labels
from clozeline.train.optim.optimizers import OptimizerBuilder, OptimizerOptions
from mylab.algorithms import LEVELS, RAREST, RARITY


class Focal(Classification):
    """Focal loss (arXiv 1708.02002) with gamma 2: rows that are easy weigh little."""

    def forward(self, hidden, tensors):
        scores = self.scores(hidden, tensors)
        labels = row_labels(tensors)
        right = scores.float().log_softmax(-1).gather(1, labels.clamp(min=0)[:, None])[:, 0]
        return (-((1 - right.exp()) ** 2) * right * (labels != IGNORED)).sum()


class Rarity(LabelHead):
    """Tells from the context how rare the token behind each label is, as `GradedTokens` stores it."""

    target = "rarity"
    reads = (*LabelHead.reads, *RARITY.fields, *RAREST.fields)

    @config_class
    class Options(LabelOptions):
        smoothing: float = 0.0
        """share of each level that is spread over all levels"""
        least: int = 0
        """rows whose rarest label is below this level have no loss"""

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

    def classes(self, tensors):
        return label_ids_with_loss(self._grade(tensors))

    def logits(self, hidden):
        return self.classifier(hidden)

    def _grade(self, tensors):
        """Return the batch with the level of each label instead of its id, ignored in rows without a rare one."""
        rows = tensors["label_index"] // tensors["input_ids"].shape[1]
        too_common = tensors["rarest"][rows] < self.options.least
        ignored = too_common | (tensors["label_ids"] == IGNORED)
        return {**tensors, "label_ids": tensors["rarity"].masked_fill(ignored, IGNORED)}


class RAdam(OptimizerBuilder):
    """Rectified Adam (arXiv 1908.03265) with decoupled weight decay."""

    statistics = "element"
    bit_exact = False
    states = 2
    Options = OptimizerOptions

    def build(self, groups):
        return torch.optim.RAdam(
            list(groups), lr=self.options.learning_rate, decoupled_weight_decay=True
        )
