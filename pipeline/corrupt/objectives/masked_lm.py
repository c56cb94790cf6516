"""Masked language modeling with BERT's 80/10/10 masking of single rows."""

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.arrays import Int64, UInt64
from clozeline.configuration.config import added_later, config_class
from clozeline.pipeline.corrupt.objectives import RandomKeys
from clozeline.pipeline.corrupt.objectives._groupings import GroupingName
from clozeline.pipeline.corrupt.objectives._masked_pairs import window_grouping
from clozeline.pipeline.corrupt.objectives._masked_rows import (
    ATTENTION_FEATURES,
    WEIGHT_FEATURES,
    Attention,
    Budget,
    FrequencyExponent,
    FrequencyWeights,
    MaskedRow,
    RoleOptions,
    attention_columns,
    choose_tokens,
    maskable_lengths,
)
from clozeline.pipeline.corrupt.objectives._objective import LANGUAGE_FEATURES
from clozeline.pipeline.group.groupings import MinimumRow
from clozeline.pipeline.kernels.ragged import scalars
from clozeline.pipeline.kernels.rates import Rate, count_between, parts_per_million
from clozeline.pipeline.rows import Example, Ragged, SampleBatch
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import LABELS, RATES, below, random_bits


@config_class
class RateRange:
    """A masking rate that is drawn for each row."""

    uniform: tuple[Rate, Rate]
    """lowest and highest share; every number of labels between them (at least 1) is equally
    likely"""

    def __post_init__(self) -> None:
        if not self.uniform[0] < self.uniform[1]:
            raise ValueError(
                f"uniform {list(self.uniform)}: expected two shares, the lower one first"
            )


class MaskedLM(FrequencyWeights, MaskedRow):
    """Masked LM of BERT (arXiv 1810.04805) and RoBERTa (arXiv 1907.11692).

    Of the m content tokens that are not special, k become labels: mask_rate x m, rounded half up,
    at least 1. They are chosen without replacement. Each label becomes [MASK] or a random id, or
    stays unchanged, independently of the others. RoBERTa packs rows and takes another variant in
    each epoch. Features: the row `[CLS] x [SEP]` of L tokens, the K label positions in it
    (ascending), and the K original ids.

    `attention` restricts what a position may attend to, as in UniLM (arXiv 1905.03197). Then
    `attention` and `prefix_length` are stored; the labels do not depend on them. A prefix ends with
    equal probability at each position that has content on both sides, so its row needs two tokens.

    With `frequency_exponent` e the labels are drawn one after another, without replacement, with
    the weights 1 / count^e. The count is that of the token in the corpus, at least 1 (XLM: arXiv
    1901.07291 §3.3, e = 0.5).

    `mask_rate: {uniform: [0, 1]}` draws k from 1..m for each row, stratified over its variants, as
    in the likelihood bound of masked diffusion (LLaDA: arXiv 2502.09992). `label_weight` m / k and
    `label_count` m make the loss nats per token. With `predict_from: previous` the model predicts
    the label at position i from position i - 1 (masked next-token prediction: arXiv 2410.24159).

    Example (mask_rate 0.5, so 2 of 4; one unchanged, one [MASK]):
        x       It is raining .
        input   [CLS] It is [MASK] . [SEP]
        labels  1 It, 3 raining
    """

    @config_class
    class Options(RoleOptions):
        # the types of two fields are wider than in the base class
        mask_rate: Rate | RateRange = 0.15  # type: ignore[assignment]
        """Share of the maskable tokens that become labels (0.15 is 15 %), or `{uniform: [LOWEST,
        HIGHEST]}` to draw a share for each row."""
        frequency_exponent: FrequencyExponent = 0.0
        predict_from: Literal["same", "previous"] = "same"
        """Position that predicts a label: the same, or the previous one; equal for all rows of a
        set."""
        attention: Attention = "bidirectional"
        """Attention mask (UniLM); stored with the row unless `bidirectional`."""
        grouping: GroupingName = "packed"
        """Grouping to read. `sentence_pair` takes the windows of next sentence prediction, without
        their partners, so that a mixture can hold both objectives."""
        min_length: Annotated[int, Field(ge=3)] = added_later(3)
        """Tokens in the shortest row that becomes an example, [CLS] and [SEP] included; shorter
        rows are skipped."""
        languages: bool = False
        """Store the language of each row, for models with language embeddings (XLM); needs
        `grouping: document`."""

        def __post_init__(self) -> None:
            super().__post_init__()

            if isinstance(self.mask_rate, RateRange) and self.max_labels is not None:
                raise ValueError(
                    "max_labels cannot be combined with a range of rates; lower the highest rate"
                )

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        weights = WEIGHT_FEATURES if isinstance(options.mask_rate, RateRange) else ()
        attention = () if options.attention == "bidirectional" else ATTENTION_FEATURES
        languages = LANGUAGE_FEATURES if options.languages else ()
        self.base_features = (*self.base_features, *weights, *attention, *languages)
        self.predict_from = options.predict_from
        if self.grouping.algorithm.second_text is not None:
            self.grouping = window_grouping(self, self.grouping.length)
        least = 2 if options.attention == "prefix" else 1
        self.minimum = MinimumRow(tokens=max(least, options.min_length - 2))

    def budget(self, random_keys: RandomKeys, maskable: Int64) -> Int64:
        """Return the number of labels of each row; it is drawn if the rate is a range."""
        rates = self.options.mask_rate
        if not isinstance(rates, RateRange):
            return super().budget(random_keys, maskable)
        lowest, highest = map(parts_per_million, rates.uniform)
        return count_between(
            maskable, lowest, highest, random_keys.draw_stratified(self.label, RATES)
        )

    def select_positions(self, keys: UInt64, ids: Ragged, budget: Budget) -> Ragged:
        return choose_tokens(keys, ids, self.special, budget, self.mean_times)

    def extra_features(
        self, samples: SampleBatch, keys: UInt64, columns: Mapping[str, Ragged]
    ) -> Mapping[str, Ragged]:
        """Return loss weights, attention and languages of the rows, as the options demand."""
        ids = samples.columns["ids"]
        attention = self.options.attention
        extra = dict[str, Ragged]()

        if isinstance(self.options.mask_rate, RateRange):
            # the loss weight of each label, and the row's share of the divisor
            counts = maskable_lengths(ids, self.special)
            weights = counts / columns["label_ids"].lengths
            extra |= {
                "label_weight": scalars(weights, np.float32),
                "label_count": scalars(counts, np.uint16),
            }

        if attention != "bidirectional":
            # the length of the prefix includes [CLS]
            prefix = np.zeros(len(samples), dtype=np.int64)
            if attention == "prefix":
                drawn = random_bits(keys, LABELS, 1)[:, 0] >> np.uint64(32)
                prefix = 2 + below(drawn, (ids.lengths - 1).astype(np.uint64))
            extra |= attention_columns(attention, prefix)

        if self.options.languages:
            extra["languages"] = scalars(samples.fixed["language"], np.uint8)
        return extra

    def _restore(self, example: Example) -> NDArray[np.generic]:
        """Put the labels back; with `predict_from: previous` no label may be at position 0."""
        original = super()._restore(example)
        if self.options.predict_from == "previous" and int(example["label_positions"][0]) == 0:
            raise ValueError("a label at position 0 has no previous position that predicts it")
        return original
