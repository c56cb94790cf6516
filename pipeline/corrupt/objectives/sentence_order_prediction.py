"""Sentence order prediction: are two consecutive segments in their original order, or swapped?"""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.arrays import UInt64
from clozeline.columns import Feature, Role
from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives._masked_pairs import (
    PAIR_CHOICES,
    MaskedPair,
    MaskedPairOptions,
    Pairs,
    window_grouping,
)
from clozeline.pipeline.corrupt.objectives._masked_rows import skip_unmaskable
from clozeline.pipeline.group.groupings import MinimumRow
from clozeline.pipeline.kernels.distributions import reciprocal_thresholds
from clozeline.pipeline.kernels.ragged import scalars
from clozeline.pipeline.kernels.rates import Rate
from clozeline.pipeline.kernels.whole_words import choose_words, find_words
from clozeline.pipeline.rows import Example, Ragged, Sample, SampleBatch
from clozeline.pipeline.vocabulary import Vocabulary


class SentenceOrderPrediction(MaskedPair):
    """Sentence order prediction of ALBERT (arXiv 1909.11942 §3.1), with masked spans of words.

    A row is a window of s sentences of one document, cut after the first a; each a in 1..s - 1 is
    equally likely. The two segments keep their order (label 0) or are swapped (label 1), with
    probability 1/2 each. Masks cover spans of up to `max_span_length` words; a length l has the
    weight 1 / l. Features: the features of masked LM, `segment_starts` [2], `sentence_label`.

    Example (before masking):
        window   It is raining . | I need an umbrella .
        label 1  [CLS] I need an umbrella . [SEP] It is raining . [SEP]
    """

    VERSION = 2
    keeps_order = False
    choices = PAIR_CHOICES
    heads = ("masked_lm", "sentence")
    minimum = MinimumRow(tokens=2, sentences=2)

    @config_class
    class Options(MaskedPairOptions):
        short_rate: Rate = 0.1
        """Share of windows with a random length below that of a full row."""
        max_span_length: Annotated[int, Field(ge=0, le=1000)] = 3
        """Words in the longest span of labels; 0: random single tokens."""

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        if options.max_span_length:
            vocabulary.require_words(f"{self.label}.max_span_length: {options.max_span_length}")
        self.grouping = window_grouping(self, self.pair_length, options.short_rate, partner=False)
        self._thresholds = (
            reciprocal_thresholds(options.max_span_length) if options.max_span_length else None
        )
        self.reads_words = options.max_span_length > 0

    def pair_features(self) -> tuple[Feature, ...]:
        return (
            Feature(
                "sentence_label",
                "uint8",
                Role("row", head="sentence", below=2),
                "1: the segments are swapped",
            ),
        )

    def add_skip_reasons(self, samples: SampleBatch, skips: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return skip_unmaskable(skips, self.special, samples.columns["ids"])

    def choose_pairs(self, samples: SampleBatch, keys: UInt64) -> Pairs:
        ids = samples.columns["ids"]
        swapped, cut = self.draw_cuts(samples, keys)
        begins = np.stack((ids.offsets[:-1], ids.offsets[:-1] + cut), axis=1)
        lengths = np.stack((cut, ids.lengths - cut), axis=1)
        begins[swapped] = begins[swapped, ::-1]
        lengths[swapped] = lengths[swapped, ::-1]
        label = {"sentence_label": scalars(swapped, np.uint8)}
        return Pairs(
            (ids.values,),
            begins,
            lengths,
            label,
            self.opens_word(samples) if self.reads_words else None,
        )

    def select_positions(self, keys: UInt64, rows: Ragged, pairs: Pairs) -> Ragged:
        """Choose spans of whole words; no span crosses [SEP]."""
        if pairs.opens_word is None:
            return super().select_positions(keys, rows, pairs)
        opens = self.gather_pairs(pairs, np.append(pairs.opens_word, (False, False)))
        words = find_words(rows, opens.values, self.special)
        return choose_words(keys, words, self.budget(words.tokens), rows, self._thresholds)

    def _restore(self, example: Example) -> NDArray[np.generic]:
        """Put the labels back, and the segments in their original order."""
        first, second = self.segments_of(super()._restore(example), example)
        if example["sentence_label"][0]:
            first, second = second, first
        return self.add_special_tokens_to_pair(first, second)

    def original(self, sample: Sample, example: Example) -> NDArray[np.generic]:
        """Return the window with special tokens, cut at the same sentence as the example."""
        ids = sample["ids"]
        first = int(example["segment_starts"][1]) - 2
        cut = len(ids) - first if example["sentence_label"][0] else first
        self.require_cut(sample, cut)
        return self.add_special_tokens_to_pair(ids[:cut], ids[cut:])
