"""Corrective language modeling: copy or correct each token, and match a row with a crop of it."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import UInt64
from clozeline.columns import Feature, Role
from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives._masked_rows import MASKED_FEATURES
from clozeline.pipeline.corrupt.objectives.replaced_token_detection import ReplacedTokenDetection
from clozeline.pipeline.kernels.ragged import scalars
from clozeline.pipeline.kernels.rates import Rate, count_at_rate, parts_per_million
from clozeline.pipeline.rows import Example, Ragged, SampleBatch
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import CROPS, below, random_bits

CROP_START: Final = Feature(
    "crop_start", "uint16", Role("row", head="similarity"), "first content token of the second view"
)
CROP_LENGTH: Final = Feature(
    "crop_length", "uint16", Role("row", head="similarity"), "content tokens of the second view"
)


class CorrectiveLM(ReplacedTokenDetection):
    """Corrective LM and sequence contrastive learning of COCO-LM (arXiv 2102.08473).

    Of the m content tokens that are not special, k become [MASK]: mask_rate x m, rounded half up,
    at least 1. In training, the samples of an auxiliary generator replace them, and the model
    copies or corrects every token. Without a generator the replacements are drawn here, as in
    replaced-token detection.

    The second view of the row is a crop of the original, `[CLS] x[crop] [SEP]`. It omits c of the n
    content tokens: crop_rate x n, rounded half up, at most n - 1. Each start in 0..c is equally
    likely. Features: the features of masked LM, and `crop_start` and `crop_length` in content
    tokens.

    Example (crop_rate 0.1: 9 of 10 from 1; mask_rate 0.2, so 2 of 10):
        x       a b c d e f g h i j
        input   [CLS] a b [MASK] d e f g [MASK] i j [SEP]
        view    [CLS] b c d e f g h i j [SEP]
    """

    heads = ("masked_lm", "corrective", "similarity")
    base_features = (*MASKED_FEATURES, CROP_START, CROP_LENGTH)

    @config_class
    class Options(ReplacedTokenDetection.Options):
        crop_rate: Rate = 0.1
        """Share of the content tokens that the second view omits."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if not self.cross_documents:
                raise ValueError(
                    "cross_documents: false is not possible here, because a crop may span several "
                    "documents; set it to true"
                )

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self._crop = parts_per_million(options.crop_rate)

    def extra_features(
        self, samples: SampleBatch, keys: UInt64, columns: Mapping[str, Ragged]
    ) -> Mapping[str, Ragged]:
        lengths = samples.columns["ids"].lengths
        omitted = count_at_rate(lengths, self._crop, lengths - 1)
        start = below(
            random_bits(keys, CROPS, 1)[:, 0] >> np.uint64(32), (omitted + 1).astype(np.uint64)
        )
        return {
            "crop_start": scalars(start, np.uint16),
            "crop_length": scalars(lengths - omitted, np.uint16),
        }

    def _restore(self, example: Example) -> NDArray[np.generic]:
        """Put the labels back, and check that the crop lies inside the content."""
        original = super()._restore(example)
        start = int(example["crop_start"][0])
        length = int(example["crop_length"][0])
        content = len(original) - 2
        if not 1 <= length <= content - start:
            raise ValueError(
                f"a crop of {length} tokens from {start} does not fit {content} content tokens"
            )
        return original
