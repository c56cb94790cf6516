"""Mask rare tokens, and store how rare they are."""

import numpy as np

from clozeline.pipeline.corrupt.objectives import MaskedRow
from clozeline.pipeline.rows import Ragged
from mylab.columns import LEVELS, RAREST, RARITY
from mylab.objectives.rare_tokens import RareTokens


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
