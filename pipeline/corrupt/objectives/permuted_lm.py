"""Permuted language modeling: predict some tokens of a row in a random order (XLNet)."""

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.arrays import Int64, UInt64
from clozeline.columns import IDS, POSITIONS, Feature
from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives import RandomKeys
from clozeline.pipeline.corrupt.objectives._choice import PossibleChoices, one_row
from clozeline.pipeline.corrupt.objectives._masked_rows import (
    Separator,
    SingleRow,
    SingleRowOptions,
    maskable_tokens,
)
from clozeline.pipeline.kernels.distributions import reciprocal_thresholds
from clozeline.pipeline.kernels.ragged import add_special_tokens, span_positions
from clozeline.pipeline.kernels.rates import Rate, count_at_rate, parts_per_million
from clozeline.pipeline.kernels.sampling import (
    choose,
    choose_gaps,
    exclusive_cumsum,
    offsets_of,
    permute,
)
from clozeline.pipeline.kernels.spans import draw_lengths, limit_spans
from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.rows import Example, Ragged, SampleBatch
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import ORDERS


class PermutedLM(SingleRow):
    """Permuted LM of XLNet (arXiv 1906.08237): predict the last tokens of a random order.

    Of the m content tokens that are not special, k are predicted in a random order. k is
    prediction_rate x m, rounded half up, at least 1. They are single tokens, or spans of
    1..max_span_length tokens whose lengths l have the weights 1 / l. The last span is cut so that
    exactly k tokens are predicted. Spans lie in distinct gaps between the other tokens.

    The row itself does not change. Features: `input_ids` [L] and `prediction_order` [K], the
    positions in the order of prediction. Entry r of the order has rank r + 1; all other positions
    have rank 0. The content stream at position i attends to j if rank[j] <= rank[i], the query
    stream if rank[j] < rank[i]. With `frame: xlnet` the row is `x [SEP] [CLS]`, padded on the left.

    Example (prediction_rate 0.5, so 2 of 4; order 3, 1):
        input   [CLS] The kitten is here [SEP]
        ranks   0 2 0 1 0 0
        reads   is from [CLS] kitten here [SEP]; The from these and is
    """

    choices = PossibleChoices("[4, 2, 3]")
    base_features = (
        Feature("input_ids", "ids", IDS, "row with special tokens, unchanged"),
        Feature(
            "prediction_order",
            "uint16",
            POSITIONS,
            "positions that are predicted, in the order of prediction",
        ),
    )

    @config_class
    class Options(SingleRowOptions):
        prediction_rate: Rate = 0.166667
        """Share of the maskable tokens that are predicted, above 0."""
        separator: Separator = "none"
        frame: Literal["bert", "xlnet"] = "bert"
        """`bert`: [CLS] x [SEP], padded on the right; `xlnet`: x [SEP] [CLS], padded on the
        left."""
        unit: Literal["span", "token"] = "span"
        """What is chosen: spans of adjacent tokens, or single tokens."""
        max_span_length: Annotated[int, Field(ge=1, le=1000)] = 5
        """Tokens in the longest span; length l has the weight 1 / l."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.prediction_rate == 0:
                raise ValueError("prediction_rate 0 predicts nothing; expected more than 0")

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self.padding_side = "left" if options.frame == "xlnet" else "right"
        self._rate = parts_per_million(options.prediction_rate)
        self._thresholds = reciprocal_thresholds(options.max_span_length)

    @property
    def form(self) -> RowForm:
        form = super().form
        if self.options.frame == "bert":
            return form
        return form.model_copy(
            update={"head": (), "between": form.tail, "tail": form.tail + form.head}
        )

    def corrupt_rows(self, samples: SampleBatch, random_keys: RandomKeys) -> Mapping[str, Ragged]:
        """Choose tokens or spans, then the order in which they are predicted."""
        ids = samples.columns["ids"]
        keys = random_keys.for_label(self.label)
        head = 0 if self.options.frame == "xlnet" else 1
        if self.chosen is not None:
            wanted = self.chosen.part_of_order(len(ids.values), "tokens")
            if self.special.contains_any(ids.values[wanted]):
                raise self.refuse_options("choose: a special token is never predicted")
            return {
                "input_ids": self.add_special_tokens_to_rows(ids),
                "prediction_order": one_row((wanted + head).astype(np.uint16)),
                **self.document_starts(samples, head),
            }

        maskable, first = maskable_tokens(ids, self.special)
        sizes = np.diff(first)
        counts = count_at_rate(sizes, self._rate)
        chosen = (
            self._choose_spans(keys, sizes, counts)
            if self.options.unit == "span"
            else choose(keys, sizes, counts)
        )

        # turn indices among the maskable tokens of a row into positions in the row
        flat_positions = chosen.values + np.repeat(first[:-1], counts)
        if maskable is not None:
            flat_positions = maskable[flat_positions]
        positions = (flat_positions - np.repeat(ids.offsets[:-1] - head, counts)).astype(np.uint16)

        order = permute(keys, counts, ORDERS)
        positions = positions.take(order.values + np.repeat(order.offsets[:-1], counts))
        columns = {
            "prediction_order": Ragged(positions, chosen.offsets),
            **self.document_starts(samples, head),
        }
        return {"input_ids": self.add_special_tokens_to_rows(ids), **columns}

    def _choose_spans(self, keys: UInt64, sizes: Int64, counts: Int64) -> Ragged:
        """Choose spans of `counts[i]` tokens among the maskable tokens of row i.

        Return the indices of their tokens, ascending.
        """
        drawn = draw_lengths(keys, counts, self._thresholds, 16 + counts // 2)
        lengths = limit_spans(drawn, sizes - counts + 1)
        gaps = choose_gaps(keys, sizes - counts, lengths.lengths)
        starts = gaps.values + exclusive_cumsum(lengths.values, lengths.offsets)
        return Ragged(span_positions(starts, lengths.values), offsets_of(counts))

    def add_special_tokens_to_rows(self, ids: Ragged) -> Ragged:
        """Return `[CLS] x [SEP]`, or `x [SEP] [CLS]`, for every row."""
        if self.options.frame == "bert":
            return super().add_special_tokens_to_rows(ids)
        return add_special_tokens(
            add_special_tokens(ids, None, self.last_token), None, self.first_token
        )

    def add_special_tokens(self, ids: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return `[CLS] x [SEP]`, or `x [SEP] [CLS]`."""
        if self.options.frame == "bert":
            return super().add_special_tokens(ids)
        return np.roll(super().add_special_tokens(ids), -1)

    def _restore(self, example: Example) -> NDArray[np.generic]:
        """Return the row; check that the order lists distinct positions of text."""
        row = example["input_ids"]
        order = example["prediction_order"]
        ranks = prediction_ranks(order, len(row))
        if np.count_nonzero(ranks) != len(order) or self.vocabulary.special[row[order]].any():
            raise ValueError(
                f"prediction_order {order.tolist()} must list distinct positions of text"
            )
        return row.copy()


def prediction_ranks(order: NDArray[np.generic], length: int) -> Int64:
    """Return the rank of each position: 0 for context, r + 1 for entry r of the order."""
    if len(order) and int(order.max()) >= length:
        raise ValueError(
            f"prediction_order names position {int(order.max())} of a row of {length} tokens"
        )
    ranks = np.zeros(length, dtype=np.int64)
    ranks[order] = 1 + np.arange(len(order))
    return ranks
