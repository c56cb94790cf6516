"""Translation language modeling: masked LM over a text and its translation (XLM)."""

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import UInt64
from clozeline.columns import Feature, Role
from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives import Skip
from clozeline.pipeline.corrupt.objectives._masked_pairs import MaskedPair, MaskedPairOptions, Pairs
from clozeline.pipeline.corrupt.objectives._masked_rows import (
    FrequencyExponent,
    FrequencyWeights,
    choose_tokens,
    skip_unmaskable,
)
from clozeline.pipeline.group.groupings import GroupingSpec, MinimumRow
from clozeline.pipeline.rows import Example, Ragged, Sample, SampleBatch
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import LABELS, random_bits


class TranslationLM(FrequencyWeights, MaskedPair):
    """Translation LM of XLM (arXiv 1901.07291 §3.4): masked LM over a text and its translation.

    Labels are chosen from both texts together, as many as in masked LM, so a word can be predicted
    from its translation. With `frequency_exponent` e the weight of a token is 1 / count^e, as in
    masked LM (§3.3: e = 0.5). Which text comes first is drawn, unless tokens are chosen. Features:
    the features of masked LM, `segment_starts` [2], `languages` [2] (a code for each segment).

    Example (mask_rate 0.4: 4 of 9, all [MASK]):
        pair    鲸鱼 是 哺乳 动物 。 / Whales are mammals .
        input   [CLS] [MASK] 是 [MASK] 动物 。 [SEP] Whales [MASK] [MASK] . [SEP]
        labels  1 鲸鱼, 3 哺乳, 8 are, 9 mammals
    """

    heads = ("masked_lm",)
    minimum = MinimumRow(tokens=1)

    @config_class
    class Options(MaskedPairOptions):
        max_length: int = 256
        """Tokens in a full row, [CLS] and both [SEP] included; at least 5."""
        frequency_exponent: FrequencyExponent = 0.0
        reset_positions: bool = True
        """Restart position ids with the second segment; applied when batches are built, not
        stored."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.max_length < 5:
                raise ValueError(
                    f"max_length {self.max_length} is too small for two texts; expected 5 or more"
                )

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self.restarts_segments = options.reset_positions
        length = self.make_grouping("parallel", self.pair_length).length
        self.grouping = GroupingSpec.of("parallel", {"length": length, "cut": "longer"})

    def longest_example(self, content: int) -> int:
        """Return the most ids of both sides together; `content` may be those of one side."""
        return self.options.max_length

    def pair_features(self) -> tuple[Feature, ...]:
        return (
            Feature(
                "languages",
                "uint8",
                Role("label", "segment_starts", below="languages"),
                "codes of the two segments' languages",
            ),
        )

    def add_skip_reasons(self, samples: SampleBatch, skips: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Skip pairs with an empty side, without maskable tokens, or that are too long."""
        ids = samples.columns["ids"]
        targets = samples.columns["target_ids"]
        skips[(skips == Skip.NONE) & (targets.lengths == 0)] = Skip.EMPTY
        skips[(skips == Skip.NONE) & (ids.lengths + targets.lengths > self.content_length)] = (
            Skip.TOO_LONG
        )
        return skip_unmaskable(skips, self.special, ids, targets)

    def select_positions(self, keys: UInt64, rows: Ragged, pairs: Pairs) -> Ragged:
        if self.mean_times is None:
            return super().select_positions(keys, rows, pairs)
        return choose_tokens(keys, rows, self.special, self.budget, self.mean_times)

    def choose_pairs(self, samples: SampleBatch, keys: UInt64) -> Pairs:
        ids = samples.columns["ids"]
        targets = samples.columns["target_ids"]
        starts = np.stack((ids.offsets[:-1], len(ids.values) + targets.offsets[:-1]), axis=1)
        lengths = np.stack((ids.lengths, targets.lengths), axis=1)
        languages = np.stack(
            (samples.fixed["language"], samples.columns["target_language"].values), axis=1
        )
        swapped = random_bits(keys, LABELS, 1)[:, 0] >> np.uint64(63) == 1
        swapped &= self.chosen is None
        for sides in (starts, lengths, languages):
            sides[swapped] = sides[swapped, ::-1]
        extra = Ragged.from_matrix(languages.astype(np.uint8))
        return Pairs((ids.values, targets.values), starts, lengths, {"languages": extra})

    def original(self, sample: Sample, example: Example) -> NDArray[np.generic]:
        """Return both texts with special tokens, in the order of the example."""
        text = sample["ids"]
        target = sample["target_ids"]
        swapped = self.add_special_tokens_to_pair(target, text)
        if np.array_equal(swapped, self.restore(example)):
            return swapped
        return self.add_special_tokens_to_pair(text, target)
