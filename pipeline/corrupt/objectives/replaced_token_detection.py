"""Replaced-token detection: predict for each token whether it was replaced (ELECTRA)."""

from functools import cached_property
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.arrays import UInt64
from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives._choice import KEEP, MASK, WORD, PossibleChoices
from clozeline.pipeline.corrupt.objectives._masked_rows import MaskedOptions, MaskedRow, MaxLabels
from clozeline.pipeline.kernels.distributions import frequency_thresholds, inverse_cdf
from clozeline.pipeline.kernels.rates import MILLION
from clozeline.pipeline.kernels.sampling import draw, draw_replacements, reorder
from clozeline.pipeline.rows import Ragged, SampleBatch
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import ORDERS, ROLES, below

_LOW_32_BITS = np.uint64(0xFFFFFFFF)
Replacement: TypeAlias = Annotated[
    Literal["generator", "uniform", "unigram", "shuffle"],
    Field(
        description="What replaces the selected tokens: [MASK] for a generator in training, or "
        "tokens that are drawn here."
    ),
]


class ReplacedTokenDetection(MaskedRow):
    """Replaced-token detection of ELECTRA (arXiv 2003.10555), with or without a generator.

    Of the m content tokens that are not special, k are selected as in masked LM. k is mask_rate x
    m, rounded half up, at least 1. With a generator, all of them become [MASK], which the generator
    learns to predict. In training, its samples replace them for the discriminator. The
    discriminator predicts for each token whether it differs from the original.

    Without a generator the replacements are drawn here. Then the label of a selected position is 1
    if `input_ids` differs from `label_ids`; all other labels are 0. `uniform` draws from the ids
    that occur in the corpus, `unigram` in proportion to their counts there. `shuffle` permutes the
    selected tokens, never to the original order; a single selected token is replaced as with
    `uniform`. Features: the features of masked LM.

    Example (mask_rate 0.4, so 2 of 5; samples chef, lunch):
        x       the chef cooked the meal
        input   [CLS] the [MASK] cooked the [MASK] [SEP]
        labels  2 chef, 5 meal
        sampled [CLS] the chef cooked the lunch [SEP]: replaced 0 0 0 0 0 1 0
    """

    heads: ClassVar[tuple[str, ...]] = ("masked_lm", "token")

    @config_class
    class Options(MaskedOptions):
        replacement: Replacement = "generator"
        max_labels: MaxLabels = None

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self.choices = PossibleChoices("[4]", (MASK,))
        if options.replacement != "generator":
            self.choices = PossibleChoices("[4: hat]", (WORD, KEEP))
            # masked_lm is the head of the generator
            heads = tuple(head for head in self.heads if head != "masked_lm")
            self.heads = heads  # type: ignore[misc]

    def replacement_ids(
        self, keys: UInt64, original: Ragged, flat_positions: Ragged, samples: SampleBatch
    ) -> NDArray[np.generic]:
        """Return [MASK] for a generator, or draw the replacements."""
        if self.options.replacement == "generator":
            return super().replacement_ids(keys, original, flat_positions, samples)

        counts = original.lengths
        ids = self.vocabulary.replaceable

        if self.options.replacement == "uniform":
            return draw_replacements(
                keys, original, mask=self.mask, replaceable=ids, mask_ppm=0, random_ppm=MILLION
            )

        if self.options.replacement == "unigram":
            index = inverse_cdf(draw(keys, ROLES, counts), self._unigram_table)
            return ids[index].astype(original.values.dtype)

        # shuffle the selected tokens of each row
        order = reorder(keys, counts, ORDERS)
        result: NDArray[np.generic] = original.values[
            order.values + np.repeat(order.offsets[:-1], counts)
        ]
        # rows with a single selected token: a uniform replacement
        alone = np.flatnonzero(counts == 1)
        drawn = draw(keys[alone], ROLES, counts[alone]) & _LOW_32_BITS
        result[original.offsets[alone]] = ids[below(drawn, len(ids))]
        return result

    @cached_property
    def _unigram_table(self) -> UInt64:
        # cached lazily: only drawing needs the token counts
        counts = self.require_token_counts("replacement: unigram")
        return frequency_thresholds(counts[self.vocabulary.replaceable])
