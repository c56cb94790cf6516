"""Sentence reordering: shuffle the sentences of a row; the model must restore their order."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from clozeline.columns import UNDO, Feature
from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives import RandomKeys
from clozeline.pipeline.corrupt.objectives._choice import PossibleChoices, one_row
from clozeline.pipeline.corrupt.objectives._denoising import (
    DenoisingPair,
    PairOptions,
    TokenRows,
    permute_share,
)
from clozeline.pipeline.group.groupings import MinimumRow
from clozeline.pipeline.kernels.ragged import flatten_positions
from clozeline.pipeline.kernels.rates import MILLION, Rate
from clozeline.pipeline.kernels.sampling import exclusive_cumsum, reorder
from clozeline.pipeline.rows import Ragged, segments


class SentenceReordering(DenoisingPair):
    """Sentence permutation of BART (arXiv 1910.13461 §2.2): shuffle the sentences of a row.

    Every order but the original is equally likely. `sentence_starts` defines the sentences; the end
    of a row may cut one. A row of one sentence is skipped; in a composition it stays unchanged.
    Features: `input_ids` [n + 2], `target_ids` [n + 1], `sentence_order` [s] (input sentence j is
    target sentence order[j]), `sentence_starts` [s] of the target.

    Example (order 1, 0; without special tokens):
        target  Hard work leads to success . Success brings happiness .
        input   Success brings happiness . Hard work leads to success .
    """

    composition_rank = 0
    rate_option = "noise_density"
    minimum = MinimumRow(sentences=2)
    choices = PossibleChoices("[2, 1]", unit="sentence")
    noise_features = (
        Feature("sentence_order", "uint16", UNDO, "index in the target of each input sentence"),
        Feature(
            "sentence_starts", "uint16", UNDO, "content indices of the target's sentences, first 0"
        ),
    )

    @config_class
    class Options(PairOptions):
        noise_density: Rate = 1.0
        """Share of the sentences that are shuffled, at least two."""

    @property
    def draws_evenly(self) -> bool:  # type: ignore[override]
        return self._rate == MILLION

    def add_noise(
        self, text: TokenRows, random_keys: RandomKeys
    ) -> tuple[Ragged, dict[str, Ragged]]:
        """Draw an order of the sentences of each row, and gather the sentences in this order."""
        ids = text.ids
        starts = text.sentence_starts
        if self.chosen is None:
            keys = random_keys.for_label(self.label)
            order = permute_share(keys, starts.lengths, self._rate, reorder)
        else:
            order = one_row(self.chosen.order(len(starts.values), "sentences").astype(np.uint16))
        # flat start and size of each sentence, then one gather
        begins = flatten_positions(starts, ids.offsets)
        sizes = np.diff(np.append(begins, ids.offsets[-1]))
        sentence = order.values + np.repeat(order.offsets[:-1], starts.lengths)
        moved = Ragged(segments(ids.values, begins[sentence], sizes[sentence]), ids.offsets)
        return moved, {"sentence_order": order, "sentence_starts": starts}

    def sentence_starts_after(self, text: TokenRows, noise: Mapping[str, Ragged]) -> Ragged:
        order = noise["sentence_order"]
        starts = text.sentence_starts
        begins = flatten_positions(starts, text.ids.offsets)
        sizes = np.diff(np.append(begins, text.ids.offsets[-1]))
        sentence = flatten_positions(order, order.offsets)
        return Ragged(
            exclusive_cumsum(sizes[sentence], order.offsets).astype(np.uint16), order.offsets
        )

    def count_unchanged(self, noise: Mapping[str, Ragged]) -> int:
        return int((noise["sentence_order"].lengths == 1).sum())

    def undo(
        self, content: NDArray[np.int64], noise: Mapping[str, NDArray[np.generic]], length: int
    ) -> NDArray[np.int64]:
        order = noise["sentence_order"]
        starts = noise["sentence_starts"].astype(np.int64)
        sizes = np.diff(np.append(starts, len(content)))
        if sorted(order.tolist()) != list(range(len(starts))):
            raise ValueError(
                f"sentence_order {order.tolist()} is not a permutation of {len(starts)} sentences"
            )
        # sentence j of the input is sentence order[j] of the original
        pieces = np.split(content, np.cumsum(sizes[order])[:-1])
        return np.concatenate([pieces[index] for index in np.argsort(order)])
