"""Mask rare tokens more often."""

import numpy as np

from clozeline.pipeline.corrupt.objectives import MaskedRow, RoleOptions, choose_tokens


class RareTokens(MaskedRow):
    """Mask rare tokens more often: weights grow with ids, and BPE numbers frequent pieces first."""

    Options = RoleOptions

    def select_positions(self, keys, ids, budget):
        inverse_weights = 1 / (1 + np.arange(self.vocabulary.size))
        return choose_tokens(keys, ids, self.special, budget, inverse_weights)
