"""Token deletion: delete tokens; the model must find where they are missing (BART)."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from clozeline.columns import UNDO, Feature
from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives import RandomKeys
from clozeline.pipeline.corrupt.objectives._choice import PossibleChoices, one_row
from clozeline.pipeline.corrupt.objectives._denoising import (
    LOST,
    DenoisingPair,
    PairOptions,
    TokenRows,
)
from clozeline.pipeline.group.groupings import MinimumRow
from clozeline.pipeline.kernels.ragged import flatten_positions, starts_in_rows
from clozeline.pipeline.kernels.rates import Rate, count_at_rate
from clozeline.pipeline.kernels.sampling import choose, offsets_of
from clozeline.pipeline.rows import Ragged


class TokenDeletion(DenoisingPair):
    """Token deletion of BART (arXiv 1910.13461 §2.2): single tokens are deleted without a mark.

    The model must find where tokens are missing. Of the n tokens k are deleted: noise_density x n,
    rounded half up, from 1 to n - 1. A row of one token is too short. Features: `input_ids`
    [n - k + 2], `target_ids` [n + 1], `kept_positions` [n - k] in content tokens.

    Example (noise_density 0.25, so 2 of 8; without special tokens):
        target  The puppies are frolicking outside the house .
        input   The puppies are outside house .
    """

    composition_rank = 1
    rate_option = "noise_density"
    minimum = MinimumRow(tokens=2)
    choices = PossibleChoices("[2, 4-5]")
    noise_features = (
        Feature(
            "kept_positions", "uint16", UNDO, "content indices of the tokens that stay, ascending"
        ),
    )

    @config_class
    class Options(PairOptions):
        noise_density: Rate = 0.15
        """Share of the tokens that are deleted."""

    def add_noise(
        self, text: TokenRows, random_keys: RandomKeys
    ) -> tuple[Ragged, dict[str, Ragged]]:
        """Choose the tokens to delete, and keep the others."""
        ids = text.ids
        lengths = text.ids.lengths
        if self.chosen is None:
            deleted = count_at_rate(lengths, self._rate, np.maximum(lengths - 1, 0))
            chosen = choose(random_keys.for_label(self.label), lengths, deleted)
        else:
            chosen = one_row(self.chosen.some_tokens(len(ids.values)))
            deleted = chosen.lengths
        begins = ids.offsets[:-1]
        stays = np.ones(int(lengths.sum()), dtype=np.bool_)
        stays[chosen.values + np.repeat(begins, deleted)] = False
        offsets = offsets_of(lengths - deleted)
        flat_positions = np.flatnonzero(stays)
        # positions in a row fit 16 bits, so this arithmetic may wrap
        kept = flat_positions.astype(np.uint16) - np.repeat(
            begins.astype(np.uint16), lengths - deleted
        )
        corrupted = Ragged(ids.values.take(flat_positions), offsets)
        return corrupted, {"kept_positions": Ragged(kept, offsets)}

    def sentence_starts_after(self, text: TokenRows, noise: Mapping[str, Ragged]) -> Ragged:
        """Return the first kept token of each sentence; a deleted sentence has no start."""
        kept = noise["kept_positions"]
        starts = text.sentence_starts
        old = text.ids.offsets
        flat_positions = flatten_positions(starts, old)
        stayed = flatten_positions(kept, old)
        return starts_in_rows(np.searchsorted(stayed, flat_positions, side="left"), kept.offsets)

    def undo(
        self, content: NDArray[np.int64], noise: Mapping[str, NDArray[np.generic]], length: int
    ) -> NDArray[np.int64]:
        """Put the kept tokens at their original positions."""
        kept = noise["kept_positions"].astype(np.int64)
        if len(kept) != len(content) or (len(kept) and kept[-1] >= length):
            raise ValueError(
                f"{len(kept)} kept_positions do not fit an input of {len(content)} tokens and an "
                f"original of {length}"
            )
        restored = np.full(length, LOST, dtype=np.int64)
        restored[kept] = content
        return restored
