"""Two algorithms of one's own for the trainer: a head and an optimizer."""

import torch

from clozeline.columns import IGNORED
from clozeline.model.heads.classification import Classification
from clozeline.model.loss import row_labels
from clozeline.train.optim.optimizers import OptimizerBuilder, OptimizerOptions


class Focal(Classification):
    """Focal loss (arXiv 1708.02002) with gamma 2: rows that are easy weigh little."""

    def forward(self, hidden, tensors):
        scores, labels = self.scores(hidden, tensors), row_labels(tensors)
        right = scores.float().log_softmax(-1).gather(1, labels.clamp(min=0)[:, None])[:, 0]
        return (-((1 - right.exp()) ** 2) * right * (labels != IGNORED)).sum()


class RAdam(OptimizerBuilder):
    """Rectified Adam (arXiv 1908.03265) with decoupled weight decay."""

    statistics, bit_exact, states = "element", False, 2
    Options = OptimizerOptions

    def build(self, groups):
        return torch.optim.RAdam(list(groups), lr=self.options.learning_rate, decoupled_weight_decay=True)
