"""Document rotation: rotate the tokens of a document; the model must find its start."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from clozeline.columns import UNDO, Feature
from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives import RandomKeys
from clozeline.pipeline.corrupt.objectives._choice import PossibleChoices
from clozeline.pipeline.corrupt.objectives._denoising import DenoisingPair, PairOptions, TokenRows
from clozeline.pipeline.group.groupings import MinimumRow
from clozeline.pipeline.kernels.ragged import scalars, starts_in_rows
from clozeline.pipeline.rows import Ragged, segments
from clozeline.seeding import ORDERS, below, random_bits


class DocumentRotation(DenoisingPair):
    """Document rotation of BART (arXiv 1910.13461 §2.2): move tokens from the front to the end.

    Of the n tokens of a row, a random number from 1 to n - 1 moves; each number is equally likely.
    A row of one token is too short. Features: `input_ids` [n + 2], `target_ids` [n + 1], `rotation`
    (one value).

    Example (r = 2; without special tokens):
        target  Hard work leads to success . Success brings happiness .
        input   leads to success . Success brings happiness . Hard work
    """

    composition_rank = 0
    minimum = MinimumRow(tokens=2)
    choices = PossibleChoices("[4]")
    noise_features = (
        Feature("rotation", "uint16", UNDO, "content tokens moved from the front to the end"),
    )

    @config_class
    class Options(PairOptions):
        """Parameters of document rotation."""

    def add_noise(
        self, text: TokenRows, random_keys: RandomKeys
    ) -> tuple[Ragged, dict[str, Ragged]]:
        """Move the first tokens of each row to its end."""
        ids = text.ids
        lengths = text.ids.lengths
        drawn = random_bits(random_keys.for_label(self.label), ORDERS, 1)[:, 0] >> np.uint64(32)
        rotation = np.where(
            lengths > 1, 1 + below(drawn, np.maximum(lengths - 1, 1).astype(np.uint64)), 0
        )
        if self.chosen is not None:
            rotation[:] = self.chosen.number(2, len(ids.values), "the token that comes first") - 1
        starts = np.stack((ids.offsets[:-1] + rotation, ids.offsets[:-1]), axis=1)
        sizes = np.stack((lengths - rotation, rotation), axis=1)
        rotated = Ragged(segments(ids.values, starts.reshape(-1), sizes.reshape(-1)), ids.offsets)
        return rotated, {"rotation": scalars(rotation, np.uint16)}

    def sentence_starts_after(self, text: TokenRows, noise: Mapping[str, Ragged]) -> Ragged:
        """Rotate the sentence starts, too; a sentence that the rotation splits becomes two."""
        starts = text.sentence_starts
        lengths = text.ids.lengths
        moved = starts.values.astype(np.int64) - np.repeat(noise["rotation"].values, starts.lengths)
        moved += np.where(moved < 0, np.repeat(lengths, starts.lengths), 0)
        offsets = text.ids.offsets
        return starts_in_rows(moved + np.repeat(offsets[:-1], starts.lengths), offsets)

    def count_unchanged(self, noise: Mapping[str, Ragged]) -> int:
        return int((noise["rotation"].values == 0).sum())

    def undo(
        self, content: NDArray[np.int64], noise: Mapping[str, NDArray[np.generic]], length: int
    ) -> NDArray[np.int64]:
        return np.roll(content, int(noise["rotation"][0]))
