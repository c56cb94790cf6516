"""Four algorithms of one's own: a filter, an objective, a head and an optimizer."""

import torch

from clozeline.configuration.config import config_class
from clozeline.model.heads.classification import Classification
from clozeline.model.loss import IGNORED, row_labels
from clozeline.pipeline.clean.filters import ThresholdFilter, at_most
from clozeline.pipeline.corrupt.objectives._masked_rows import MaskedRow, RoleOptions, choose_tokens
from clozeline.train.optim.optimizers import OptimizerBuilder, OptimizerOptions


class Shouting(ThresholdFilter):
    """Rejects texts most of whose letters are capitals."""

    VERSION, reasons = 1, ("shouting",)

    @config_class
    class Options:
        share: float = 0.5
        """maximum share of capitals among letters"""

    def __init__(self, options):
        self._share = options.share

    def measure(self, statistics, language):
        letters = [letter for letter in statistics.text if letter.isalpha()]
        yield at_most("shouting", sum(map(str.isupper, letters)) / max(1, len(letters)), self._share)


class RareTokens(MaskedRow):
    """Masks tokens with weights that grow with their ids, which BPE gives in the order of its merges."""

    Options = RoleOptions

    def select(self, keys, ids, budget):
        times = [1 / (1 + token) for token in range(self.vocabulary.size)]
        return choose_tokens(keys, ids, self.special, budget, torch.tensor(times).double().numpy())


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
