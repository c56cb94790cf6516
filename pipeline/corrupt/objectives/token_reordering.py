"""Token reordering: shuffle the tokens of a row; the model restores their order."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.arrays import Int64, UInt64
from clozeline.configuration.config import STRICT
from clozeline.pipeline.corrupt.objectives import Draws
from clozeline.pipeline.corrupt.objectives._denoising import DenoisingPair, PairOptions, TokenRows
from clozeline.pipeline.group.groupings import MinimumRow
from clozeline.pipeline.kernels.rates import MILLION, Rate, count_at_rate, parts_per_million
from clozeline.pipeline.kernels.sampling import choose, list_indices, offsets_of, permute, permute_near
from clozeline.pipeline.rows import Feature, Ragged
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import ORDERS

# Largest sum of row length and distance: sort keys have 16 bits for it in addition to 32 random bits.
_MOST_KEYS = 65_535


class TokenReordering(DenoisingPair):
    """Token shuffling, over the entire row or local as in unsupervised translation (arXiv 1711.00043 §3.3).

    k = round half up of noise_density x n tokens, at least two, are permuted uniformly. With `max_shuffle_distance` d
    all tokens are shuffled, none farther than d. If the permutation is the identity, its first two tokens are swapped.
    A row of one token is too short. Features: `input_ids` [n + 2], `target_ids` [n + 1], `token_order` [n] (input token
    i is target token order[i]).

    Example (order 6, 1, 4, 3, 0, 2, 5; without special tokens):
        target  The kitten is chasing the ball .
        input   . kitten the chasing The is ball
    """

    name: ClassVar[str] = "token_reordering"
    VERSION: ClassVar[int] = 1
    composition_rank: ClassVar[int] = 1
    minimum = MinimumRow(tokens=2)
    noise_features = (Feature("token_order", "uint16", 1, "target token at each place of the input"),)

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options(PairOptions):
        """Parameters of token reordering."""

        RENAMED: ClassVar = {"rate": "noise_density", "distance": "max_shuffle_distance"}
        noise_density: Rate = 1.0
        """Share of tokens that are moved, at least two."""
        max_shuffle_distance: Annotated[int, Field(ge=0)] = 0
        """Maximum distance that a token moves, in tokens; 0: no limit. Only with noise_density 1."""

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self._rate = parts_per_million(options.noise_density)
        if self._rate == 0:
            raise self.refuse_options("noise_density 0 moves no token; expected more than 0")
        if options.max_shuffle_distance and self._rate != MILLION:
            raise self.refuse_options(
                f"max_shuffle_distance {options.max_shuffle_distance} concerns all tokens; expected noise_density 1.0, "
                f"got {options.noise_density}"
            )
        if options.max_shuffle_distance and options.max_shuffle_distance + self.content_length > _MOST_KEYS:
            raise self.refuse_options(
                f"max_shuffle_distance {options.max_shuffle_distance} + rows of {self.content_length} tokens exceed "
                f"{_MOST_KEYS}; 0 sets no bound"
            )

    def noise(self, text: TokenRows, draws: Draws) -> tuple[Ragged, dict[str, Ragged]]:
        """Draw an order of the tokens of each row, and gather them in it."""
        ids, lengths = text.ids, text.ids.lengths
        order = self._draw_orders(draws.keys(self.label), lengths)
        index = order.values + np.repeat(ids.offsets[:-1], lengths)
        return Ragged(ids.values.take(index), order.offsets), {"token_order": order}

    def _draw_orders(self, keys: UInt64, lengths: Int64) -> Ragged:
        if self.options.max_shuffle_distance:
            return _never_identity(permute_near(keys, lengths, self.options.max_shuffle_distance, ORDERS))
        if self._rate == MILLION:
            return _never_identity(permute(keys, lengths, ORDERS))
        # permute a subset among itself, the rest keeps its position
        moving = np.minimum(lengths, np.maximum(2, count_at_rate(lengths, self._rate)))
        chosen = choose(keys, lengths, moving)
        among = _never_identity(permute(keys, moving, ORDERS))
        order = Ragged(list_indices(lengths).astype(np.uint16), offsets_of(lengths))
        flat_positions = chosen.values + np.repeat(order.offsets[:-1], moving)
        order.values[flat_positions] = chosen.values[among.values + np.repeat(among.offsets[:-1], moving)]
        return order

    def starts_after(self, text: TokenRows, noise: Mapping[str, Ragged]) -> Ragged:
        """Return the same starts: sentences keep their sizes, though not their tokens."""
        return text.sentence_starts

    def count_unchanged(self, noise: Mapping[str, Ragged]) -> int:
        """Count the rows of one token."""
        return int((noise["token_order"].lengths == 1).sum())

    def undo(self, content: NDArray[np.int64], noise: Mapping[str, NDArray[Any]], length: int) -> NDArray[np.int64]:
        """Move each token back."""
        order = noise["token_order"].astype(np.int64)
        if len(order) != len(content) or not np.array_equal(np.sort(order), np.arange(len(content))):
            raise ValueError(f"token_order {order.tolist()} is not a permutation of {len(content)} tokens")
        original = np.empty_like(content)
        original[order] = content
        return original


def _never_identity(orders: Ragged) -> Ragged:
    """Swap the first two entries of orders of two or more that are the identity (overwrites its input)."""
    begins, sizes = orders.offsets[:-1], orders.lengths
    rows = np.flatnonzero(sizes >= 2)
    rows = rows[(orders.values[begins[rows]] == 0) & (orders.values[begins[rows] + 1] == 1)]
    if len(rows):
        drawn = orders.take(rows)
        moved = np.add.reduceat(drawn.values != list_indices(drawn.lengths), drawn.offsets[:-1], dtype=np.int64)
        same = begins[rows[moved == 0]]
        orders.values[same], orders.values[same + 1] = 1, 0
    return orders
