"""Permuted language modelling: predict some tokens in a random order, each from the context and those before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.arrays import Int64, UInt64
from clozeline.configuration.config import STRICT
from clozeline.pipeline.corrupt.objectives import Draws, Frame
from clozeline.pipeline.corrupt.objectives._masked_rows import RowOptions, Separator, SingleRow, maskable_tokens
from clozeline.pipeline.kernels.distributions import reciprocal_thresholds
from clozeline.pipeline.kernels.ragged import add_special_tokens, span_positions
from clozeline.pipeline.kernels.rates import Rate, count_at_rate, parts_per_million
from clozeline.pipeline.kernels.sampling import choose, choose_gaps, exclusive_cumsum, offsets_of, permute
from clozeline.pipeline.kernels.span_lengths import draw_lengths, limit_spans
from clozeline.pipeline.rows import Example, Feature, Ragged, SampleBatch
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import ORDERS


class PermutedLM(SingleRow):
    """Permuted LM of XLNet (arXiv 1906.08237), with partial prediction: the last 1/6 of a random factorisation order.

    k = max(1, round half up of prediction_rate x m) of the m content tokens that are not special are predicted, in a
    uniformly random order. They are single tokens, or spans of 1..max_span_length tokens whose lengths l have weights
    1 / l. The last span is cut so that k tokens are taken; spans lie in distinct gaps between the other tokens. The row
    itself does not change. Features: `input_ids` [L] and `prediction_order` [K], places in the order of prediction.
    Place r of the order has rank r + 1, all other places have rank 0. The content stream at i reads j if rank[j] <=
    rank[i], the query stream if rank[j] < rank[i]. In the frame `xlnet` the row is `x [SEP] [CLS]`, padded on the left.

    Example (prediction_rate 0.5, so 2 of 4; order 3, 1):
        input   [CLS] The kitten is here [SEP]
        ranks   0 2 0 1 0 0
        reads   is from [CLS] kitten here [SEP]; The from these and is
    """

    name: ClassVar[str] = "permuted_lm"
    VERSION: ClassVar[int] = 1
    own_features = (
        Feature("input_ids", "ids", 1, "framed row, unchanged"),
        Feature("prediction_order", "uint16", 1, "places in input_ids that are predicted, in the order of prediction"),
    )

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options(RowOptions):
        """Parameters of permuted LM."""

        RENAMED: ClassVar = {"rate": "prediction_rate", "longest": "max_span_length"}
        prediction_rate: Rate = 0.166667
        """Share of the maskable tokens that are predicted, above 0."""
        separator: Separator = "none"
        order: Literal["random", "identity"] = "random"
        """`identity`: predict in text order; with prediction_rate 1 this is causal LM."""
        frame: Literal["bert", "xlnet"] = "bert"
        """`bert`: [CLS] x [SEP], pads right; `xlnet`: x [SEP] [CLS], pads left."""
        unit: Literal["span", "token"] = "span"
        """Unit that is drawn: spans of neighbouring tokens, or each token by itself."""
        max_span_length: Annotated[int, Field(ge=1, le=1000)] = 5
        """Tokens in the longest span; a length l has the weight 1 / l."""

        def __post_init__(self) -> None:
            """Refuse rows without a prediction."""
            super().__post_init__()
            if self.prediction_rate == 0:
                raise ValueError("prediction_rate 0 predicts nothing; expected more than 0")

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self.frame = Frame("left" if options.frame == "xlnet" else "right")
        self._rate = parts_per_million(options.prediction_rate)
        self._thresholds = reciprocal_thresholds(options.max_span_length)

    def kernel(self, samples: SampleBatch, draws: Draws) -> Mapping[str, Ragged]:
        """Choose tokens or spans, then the order."""
        ids, keys = samples.columns["ids"], draws.keys(self.label)
        maskable, first = maskable_tokens(ids, self.special)
        sizes = np.diff(first)
        wanted = count_at_rate(sizes, self._rate)
        chosen = self._spans(keys, sizes, wanted) if self.options.unit == "span" else choose(keys, sizes, wanted)
        places = chosen.values + np.repeat(first[:-1], wanted)
        if maskable is not None:
            places = maskable[places]
        head = 0 if self.options.frame == "xlnet" else 1
        positions = (places - np.repeat(ids.offsets[:-1] - head, wanted)).astype(np.uint16)
        if self.options.order == "random":
            order = permute(keys, wanted, ORDERS)
            positions = positions.take(order.values + np.repeat(order.offsets[:-1], wanted))
        columns = {
            "input_ids": self.add_special_tokens_to_rows(ids),
            "prediction_order": Ragged(positions, chosen.offsets),
        }
        return {**columns, **self.document_starts(samples, head)}

    def _spans(self, keys: UInt64, sizes: Int64, wanted: Int64) -> Ragged:
        """Draw spans among the maskable tokens of each row; return their places, ascending."""
        drawn = draw_lengths(keys, wanted, self._thresholds, 16 + wanted // 2)
        lengths = limit_spans(drawn, sizes - wanted + 1)
        gaps = choose_gaps(keys, sizes - wanted, lengths.lengths)
        starts = gaps.values + exclusive_cumsum(lengths.values, lengths.offsets)
        return Ragged(span_positions(starts, lengths.values), offsets_of(wanted))

    def add_special_tokens_to_rows(self, ids: Ragged) -> Ragged:
        """Frame every row."""
        if self.options.frame == "bert":
            return super().add_special_tokens_to_rows(ids)
        return add_special_tokens(add_special_tokens(ids, None, self._sep), None, self._cls)

    def add_special_tokens(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Return `[CLS] x [SEP]`, or `x [SEP] [CLS]`."""
        if self.options.frame == "bert":
            return super().add_special_tokens(ids)
        return np.append(ids, (self._sep, self._cls)).astype(self.vocabulary.id_dtype)

    def invert(self, example: Example) -> NDArray[Any]:
        """Return the row as it is.

        Raises:
            ValueError: the order names a place twice, or one outside the text.
        """
        row, order = example["input_ids"], example["prediction_order"]
        ranks = prediction_ranks(order, len(row))
        if np.count_nonzero(ranks) != len(order) or self.vocabulary.special[row[order]].any():
            raise ValueError(f"objective '{self.label}': {order.tolist()} is not an order of places of text")
        return row.copy()


def prediction_ranks(order: NDArray[Any], length: int) -> Int64:
    """Return the rank of each place of a row: 0 for context, r + 1 for the r-th predicted.

    Query row i reads j where rank[j] < rank[i], content row i where rank[j] <= rank[i].

    Raises:
        ValueError: a place lies outside the row.
    """
    if len(order) and int(order.max()) >= length:
        raise ValueError(f"prediction_order names place {int(order.max())} of a row of {length} tokens")
    ranks = np.zeros(length, dtype=np.int64)
    ranks[order] = 1 + np.arange(len(order))
    return ranks
