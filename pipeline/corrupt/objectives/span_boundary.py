"""Span boundary objective: predict a masked span from the two tokens around it (SpanBERT)."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.arrays import Int64, UInt64
from clozeline.columns import Feature, Role
from clozeline.configuration.config import added_later, config_class
from clozeline.pipeline.corrupt.objectives._masked_rows import (
    MASKED_FEATURES,
    Budget,
    MaskedRow,
    RoleOptions,
    Separator,
)
from clozeline.pipeline.kernels.distributions import geometric_thresholds
from clozeline.pipeline.kernels.ragged import flatten_positions, span_positions
from clozeline.pipeline.kernels.rates import Rate, parts_per_million
from clozeline.pipeline.kernels.whole_words import choose_words, find_words, run_starts, unit_starts
from clozeline.pipeline.rows import Example, Ragged, SampleBatch
from clozeline.pipeline.vocabulary import Vocabulary

SPAN_STARTS: Final = Feature(
    "span_starts",
    "uint16",
    Role("position", "input_ids", head="span_boundary"),
    "positions where runs of labels start",
)
SPAN_LENGTHS: Final = Feature(
    "span_lengths",
    "uint16",
    Role("label", "span_starts", head="span_boundary"),
    "tokens of each run",
)


class SpanBoundary(MaskedRow):
    """Span masking and span boundary objective of SpanBERT (arXiv 1907.10529): spans of words.

    A row has as many labels as in masked LM. Spans start at words in random order and grow to the
    right. Their number of words is geometric, renormalized on 1..max_span_length (mean 3.80 with
    0.2 and 10, as in the paper). A span ends early if the next word is masked already, follows a
    special token or exceeds the budget of labels. If no other word fits the budget, the first
    tokens of the next word use it up. A word longer than the budget is treated as words of one
    token each.

    Adjacent spans become one span; the draw of its first token decides how it is masked. Every span
    has a token on both sides, at least [CLS] or [SEP]. Features: the features of masked LM,
    `span_starts` and `span_lengths` [S].

    Example (a budget of 3 and one span, all [MASK]):
        x       an American football game was played
        input   [CLS] an [MASK] [MASK] [MASK] was played [SEP]
        labels  2 American, 3 football, 4 game: span_starts 2, span_lengths 3
    """

    VERSION = 2
    heads = ("masked_lm", "span_boundary")
    base_features = (*MASKED_FEATURES, SPAN_STARTS, SPAN_LENGTHS)

    @config_class
    class Options(RoleOptions):
        separator: Separator = "none"
        geometric_p: Rate = 0.2
        """Parameter p of the geometric distribution p (1 - p)^(l - 1) of span lengths; above 0, at
        most 1."""
        max_span_length: Annotated[int, Field(ge=1, le=1000)] = 10
        """Words or tokens in the longest span."""
        min_span_length: Annotated[int, Field(ge=1, le=1000)] = added_later(1)
        """Words or tokens in the shortest span that is drawn; the last one of a row may be cut."""
        unit: Literal["word", "token"] = added_later("word")
        """Unit of spans and of their lengths: words, or tokens (LTG-BERT, arXiv 2303.09859)."""
        predict_from: Literal["same", "previous"] = added_later("same")
        """Position that predicts a label, as in masked_lm; equal for all rows of a set."""
        role_unit: Literal["token", "span"] = "span"
        """Unit that becomes [MASK] or random, or stays unchanged, as one: a token, or a span
        (SpanBERT)."""

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self.predict_from = options.predict_from
        self.reads_words = options.unit == "word"
        if self.reads_words:
            vocabulary.require_words(self.label)
        if options.min_span_length > options.max_span_length:
            raise self.refuse_options("min_span_length is above max_span_length")
        if options.geometric_p == 0:
            raise self.refuse_options("geometric_p 0 gives endless spans; expected more than 0")
        self._thresholds = geometric_thresholds(
            parts_per_million(options.geometric_p),
            options.max_span_length,
            options.min_span_length,
        )

    def choose_labels(self, samples: SampleBatch, keys: UInt64, budget: Budget) -> Ragged:
        ids = samples.columns["ids"]
        opens = self.opens_word(samples) if self.reads_words else np.ones(len(ids.values), np.bool_)
        words = find_words(ids, opens, self.special)
        return choose_words(keys, words, budget(words.tokens), ids, self._thresholds)

    def role_owner(
        self, original: Ragged, flat_positions: Ragged, samples: SampleBatch
    ) -> Int64 | None:
        return (
            unit_starts(run_starts(flat_positions.values))
            if self.options.role_unit == "span"
            else None
        )

    def extra_features(
        self, samples: SampleBatch, keys: UInt64, columns: Mapping[str, Ragged]
    ) -> Mapping[str, Ragged]:
        positions = columns["label_positions"]
        rows = columns["input_ids"]
        flat_positions = flatten_positions(positions, rows.offsets)
        first = np.flatnonzero(run_starts(flat_positions))
        lengths = np.diff(first, append=len(flat_positions)).astype(np.uint16)
        offsets = np.searchsorted(first, positions.offsets)
        return {
            "span_starts": Ragged(positions.values[first], offsets),
            "span_lengths": Ragged(lengths, offsets),
        }

    def _restore(self, example: Example) -> NDArray[np.generic]:
        """Put the labels back, and check that the spans are the runs of labels."""
        starts = example["span_starts"].astype(np.int64)
        lengths = example["span_lengths"].astype(np.int64)
        original = super()._restore(example)
        labels = example["label_positions"]
        if len(starts) != len(lengths) or not np.array_equal(
            span_positions(starts, lengths), labels
        ):
            raise ValueError(
                f"spans from {starts.tolist()} of {lengths.tolist()} tokens do not cover the "
                f"labels {labels.tolist()}"
            )

        return original
