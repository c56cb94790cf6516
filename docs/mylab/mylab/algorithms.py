"""Two algorithms of one's own for the pipeline, a filter and an objective: its processes need no torch."""

import numpy as np

from clozeline.configuration.config import config_class
from clozeline.pipeline.clean.filters import ThresholdFilter, at_most
from clozeline.pipeline.corrupt.objectives._masked_rows import MaskedRow, RoleOptions, choose_tokens


class Shouting(ThresholdFilter):
    """Rejects texts most of whose letters are capitals."""

    VERSION, reasons = 1, ("shouting",)

    @config_class
    class Options:
        share: float = 0.5
        """maximum share of capitals among letters"""

    def __init__(self, options):
        self._share = options.share

    def measure(self, document, statistics):
        letters = [letter for letter in document.text if letter.isalpha()]
        yield at_most("shouting", sum(map(str.isupper, letters)) / max(1, len(letters)), self._share)


class RareTokens(MaskedRow):
    """Masks tokens with weights that grow with their ids, which BPE gives in the order of its merges."""

    Options = RoleOptions

    def select(self, keys, ids, budget):
        times = [1 / (1 + token) for token in range(self.vocabulary.size)]
        return choose_tokens(keys, ids, self.special, budget, np.array(times))
