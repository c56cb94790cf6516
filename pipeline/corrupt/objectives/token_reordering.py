"""Token reordering: shuffle the tokens of a row; the model must restore their order."""

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
from clozeline.pipeline.kernels.rates import Rate
from clozeline.pipeline.kernels.sampling import permute, swap_identities
from clozeline.pipeline.rows import Ragged


class TokenReordering(DenoisingPair):
    """Token shuffling of unsupervised translation (arXiv 1711.00043 §3.3), over the entire row.

    Of the n tokens k are shuffled: noise_density x n, rounded half up, at least two. Every order is
    equally likely; if it is the original order, the first two tokens are swapped. A row of one
    token is too short. Features: `input_ids` [n + 2], `target_ids` [n + 1], `token_order` [n]
    (input token i is target token order[i]).

    Example (order 6, 1, 4, 3, 0, 2, 5; without special tokens):
        target  The kitten is chasing the ball .
        input   . kitten the chasing The is ball
    """

    composition_rank = 1
    rate_option = "noise_density"
    minimum = MinimumRow(tokens=2)
    choices = PossibleChoices("[3, 1, 2]")
    noise_features = (
        Feature("token_order", "uint16", UNDO, "index in the target of each input token"),
    )

    @config_class
    class Options(PairOptions):
        noise_density: Rate = 1.0
        """Share of the tokens that are shuffled, at least two."""

    def add_noise(
        self, text: TokenRows, random_keys: RandomKeys
    ) -> tuple[Ragged, dict[str, Ragged]]:
        """Draw an order of the tokens of each row, and gather the tokens in this order."""
        ids = text.ids
        lengths = text.ids.lengths
        keys = random_keys.for_label(self.label)
        if self.chosen is None:
            order = permute_share(
                keys, lengths, self._rate, lambda *row: swap_identities(permute(*row))
            )
        else:
            order = one_row(self.chosen.order(len(ids.values), "tokens").astype(np.uint16))
        index = order.values + np.repeat(ids.offsets[:-1], lengths)
        return Ragged(ids.values.take(index), order.offsets), {"token_order": order}

    def count_unchanged(self, noise: Mapping[str, Ragged]) -> int:
        return int((noise["token_order"].lengths == 1).sum())

    def undo(
        self, content: NDArray[np.int64], noise: Mapping[str, NDArray[np.generic]], length: int
    ) -> NDArray[np.int64]:
        order = noise["token_order"].astype(np.int64)
        if len(order) != len(content) or not np.array_equal(
            np.sort(order), np.arange(len(content))
        ):
            raise ValueError(
                f"token_order {order.tolist()} is not a permutation of {len(content)} tokens"
            )
        original = np.empty_like(content)
        original[order] = content
        return original
