"""Denoising autoencoding: mask single tokens; the decoder generates the complete original."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from clozeline.columns import UNDO, Feature
from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives import RandomKeys
from clozeline.pipeline.corrupt.objectives._choice import MASK, PossibleChoices, one_row
from clozeline.pipeline.corrupt.objectives._denoising import (
    LOST,
    DenoisingPair,
    PairOptions,
    TokenRows,
)
from clozeline.pipeline.kernels.ragged import flatten_positions
from clozeline.pipeline.kernels.rates import Rate, count_at_rate
from clozeline.pipeline.kernels.sampling import choose
from clozeline.pipeline.rows import Ragged
from clozeline.pipeline.vocabulary import Vocabulary


class DenoisingAutoencoding(DenoisingPair):
    """Token masking of BART (arXiv 1910.13461 §2.2): single tokens become [MASK].

    Of the n tokens k are masked: mask_rate x n, rounded half up, at least 1. The decoder generates
    the complete original. Features: `input_ids` [n + 2], `target_ids` [n + 1], `noise_positions`
    [k] in content tokens.

    Example (mask_rate 0.25, so 2 of 8; without special tokens):
        target  The puppies are frolicking outside the house .
        input   The puppies are [MASK] outside [MASK] house .
    """

    composition_rank = 2
    rate_option = "mask_rate"
    choices = PossibleChoices("[2, 4-5]", (MASK,))
    noise_features = (
        Feature("noise_positions", "uint16", UNDO, "content indices of [MASK], ascending"),
    )

    @config_class
    class Options(PairOptions):
        mask_rate: Rate = 0.15
        """Share of the tokens that become [MASK]; at 1.0 the decoder is a language model without
        input."""

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self._mask = self.id_of("mask")

    def add_noise(
        self, text: TokenRows, random_keys: RandomKeys
    ) -> tuple[Ragged, dict[str, Ragged]]:
        """Replace each chosen token with [MASK]."""
        ids = text.ids
        if self.chosen is None:
            masked = count_at_rate(ids.lengths, self._rate)
            chosen = choose(random_keys.for_label(self.label), ids.lengths, masked)
        else:
            chosen = one_row(self.chosen.tokens(len(ids.values)).astype(np.uint16))
        values = ids.values.copy()
        values[flatten_positions(chosen, ids.offsets)] = self._mask
        return Ragged(values, ids.offsets), {"noise_positions": chosen}

    def undo(
        self, content: NDArray[np.int64], noise: Mapping[str, NDArray[np.generic]], length: int
    ) -> NDArray[np.int64]:
        restored = content.copy()
        restored[noise["noise_positions"]] = LOST
        return restored
