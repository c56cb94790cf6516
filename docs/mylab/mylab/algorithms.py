"""Custom algorithms for the pipeline: a filter and two objectives. Do not import torch here."""

import numpy as np

from clozeline.columns import Feature, Role
from clozeline.configuration.config import config_class
from clozeline.pipeline.clean.filters import ThresholdFilter, at_most
from clozeline.pipeline.corrupt.objectives import MaskedRow, RoleOptions, choose_tokens
from clozeline.pipeline.rows import Ragged

LEVELS = 4
RARITY = Feature(
    "rarity",
    "uint8",
    Role("label", "label_positions", head="rarity", below=LEVELS),
    "how rare each label is",
)
RAREST = Feature(
    "rarest",
    "uint8",
    Role("row", head="rarity", below=LEVELS),
    "how rare the rarest label of the row is",
)


class Shouting(ThresholdFilter):
    """Reject documents with too many capital letters."""

    VERSION = 1
    reasons = ("shouting",)

    @config_class
    class Options:
        share: float = 0.5
        """maximum share of capitals among letters"""

    def __init__(self, options):
        self._share = options.share

    def measure(self, document, statistics):
        letters = [letter for letter in document.text if letter.isalpha()]
        capitals = sum(map(str.isupper, letters))
        yield at_most("shouting", capitals / max(1, len(letters)), self._share)


class RareTokens(MaskedRow):
    """Mask rare tokens more often: weights grow with ids, and BPE numbers frequent pieces first."""

    Options = RoleOptions

    def select_positions(self, keys, ids, budget):
        inverse_weights = 1 / (1 + np.arange(self.vocabulary.size))
        return choose_tokens(keys, ids, self.special, budget, inverse_weights)


class GradedTokens(RareTokens):
    """Mask rare tokens, and store how rare each label and the rarest label of each row is.

    The head `rarity` learns to predict these levels from the context. One column has a value for
    each label, the other one for each row.
    """

    heads = ("masked_lm", "rarity")
    base_features = (*MaskedRow.base_features, RARITY, RAREST)

    def extra_features(self, samples, keys, columns):
        labels = columns["label_ids"]
        levels = (labels.values.astype(np.int64) * LEVELS // self.vocabulary.size).astype(np.uint8)
        rarest = np.maximum.reduceat(levels, labels.offsets[:-1]) if len(labels) else levels
        return {
            "rarity": Ragged(levels, labels.offsets),
            "rarest": Ragged.from_matrix(rarest[:, None]),
        }
