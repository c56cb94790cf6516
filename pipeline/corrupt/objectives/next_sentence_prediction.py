"""Next sentence prediction: does the second segment follow the first one in its document?"""

from typing import Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import UInt64
from clozeline.columns import Feature, Role
from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives import Skip
from clozeline.pipeline.corrupt.objectives._masked_pairs import (
    PAIR_CHOICES,
    PAIR_SPECIAL_TOKENS,
    SHORT_RATE,
    MaskedPair,
    MaskedPairOptions,
    Pairs,
    window_grouping,
)
from clozeline.pipeline.corrupt.objectives._masked_rows import (
    ATTENTION_FEATURES,
    attention_columns,
    skip_unmaskable,
)
from clozeline.pipeline.group.groupings import MinimumRow
from clozeline.pipeline.kernels.ragged import scalars
from clozeline.pipeline.kernels.rates import Rate
from clozeline.pipeline.kernels.sampling import offsets_of
from clozeline.pipeline.rows import Example, ExampleBatch, Ragged, Sample, SampleBatch, segments
from clozeline.pipeline.vocabulary import Vocabulary

SENTENCE_LABEL: Final = Feature(
    "sentence_label",
    "uint8",
    Role("row", head="sentence", below=2),
    "1: the second segment is from another document",
)


class NextSentencePrediction(MaskedPair):
    """Next sentence prediction of BERT (arXiv 1810.04805 §3.1), together with masked LM.

    A row is a window of t tokens in s sentences, with a partner of u < t tokens from another
    document. Segment A is the first a sentences; each a in 1..s - 1 is equally likely. Segment B
    follows A in the window (label 0) or is the partner (label 1), with probability 1/2 each. Either
    B is cut to min(t - |A|, u) tokens, so that its length does not reveal the label. Then the pair
    is masked as in masked LM. Features: the features of masked LM, `segment_starts` [2],
    `sentence_label`.

    With `attention: prefix`, B always follows A in the window, and the pair has no label. Positions
    of A attend to A. Positions of B attend to A and to earlier positions of B (UniLM's
    sequence-to-sequence mode: arXiv 1905.03197 §2.3). `attention` and `prefix_length` replace
    `sentence_label`.

    Example (before masking):
        window   It is raining . | I need an umbrella .        partner  Apples grow on trees .
        label 0  [CLS] It is raining . [SEP] I need an umbrella . [SEP]
        label 1  [CLS] It is raining . [SEP] Apples grow on trees . [SEP]
    """

    heads: ClassVar[tuple[str, ...]] = ("masked_lm", "sentence")
    minimum = MinimumRow(tokens=2, sentences=2)

    @config_class
    class Options(MaskedPairOptions):
        short_rate: Rate = SHORT_RATE
        """Share of windows with a random length below that of a full row."""
        complete_sentences: bool = False
        """Do not cut the second segment to the same length for both labels, so that it ends with a
        sentence unless the row is full; its length may reveal the label."""
        attention: Literal["bidirectional", "prefix"] = "bidirectional"
        """Attention mask; `prefix`: the second segment always follows the first one, and attends
        to it and to earlier positions."""

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self.grouping = window_grouping(
            self,
            self.pair_length,
            options.short_rate,
            complete_sentences=options.complete_sentences,
        )
        if self._has_label:
            self.choices = PAIR_CHOICES
        else:
            self.heads = ("masked_lm",)  # type: ignore[misc]

    @property
    def _has_label(self) -> bool:
        return self.options.attention == "bidirectional"

    def pair_features(self) -> tuple[Feature, ...]:
        return (SENTENCE_LABEL,) if self._has_label else ATTENTION_FEATURES

    def add_skip_reasons(self, samples: SampleBatch, skips: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Skip rows whose label needs a partner, and rows whose first sentence cannot be masked."""
        if self._has_label:
            skips[(skips == Skip.NONE) & (samples.columns["partner_ids"].lengths == 0)] = (
                Skip.NO_PARTNER
            )

        ids = samples.columns["ids"]
        if not self.special.contains_any(ids.values):
            return skips

        # every variant includes the first sentence, so it must have maskable tokens
        starts = samples.columns["sentence_starts"]
        rows = np.flatnonzero(starts.lengths >= 2)
        sizes = np.zeros(len(ids), np.int64)
        sizes[rows] = starts.values[starts.offsets[rows] + 1]
        first = Ragged(segments(ids.values, ids.offsets[:-1], sizes), offsets_of(sizes))
        return skip_unmaskable(skips, self.special, first)

    def choose_pairs(self, samples: SampleBatch, keys: UInt64) -> Pairs:
        """Draw the label and the cut; the length of B does not depend on the label."""
        ids = samples.columns["ids"]
        partners = samples.columns["partner_ids"]
        other, first = self.draw_cuts(samples, keys)

        if not self._has_label:
            begins = np.stack((ids.offsets[:-1], ids.offsets[:-1] + first), axis=1)
            lengths = np.stack((first, ids.lengths - first), axis=1)
            return Pairs((ids.values,), begins, lengths, attention_columns("prefix", first + 2))

        # segments are slices of the concatenation of windows and partners
        second = self._second_length(first, ids.lengths - first, partners.lengths, other)
        begins = np.where(other, len(ids.values) + partners.offsets[:-1], ids.offsets[:-1] + first)
        begins = np.stack((ids.offsets[:-1], begins), axis=1)
        lengths = np.stack((first, second), axis=1)
        return Pairs(
            (ids.values, partners.values),
            begins,
            lengths,
            {"sentence_label": scalars(other, np.uint8)},
        )

    def _second_length(self, first: Any, rest: Any, partner: Any, other: Any) -> Any:
        """Return the length of B from the lengths of A, of the rest of the window, and the partner.

        It does not depend on the label unless sentences stay complete.
        """
        if not self.options.complete_sentences:
            return np.minimum(rest, partner)
        return np.where(other, np.minimum(partner, self.pair_length - first), rest)

    def original(self, sample: Sample, example: Example) -> NDArray[np.generic]:
        """Return the start of the window and, by the label, its continuation or the partner."""
        cut = int(example["segment_starts"][1]) - 2
        self.require_cut(sample, cut)
        if not self._has_label:
            return self.add_special_tokens_to_pair(sample["ids"][:cut], sample["ids"][cut:])
        rest = len(sample["ids"]) - cut
        is_other = bool(example["sentence_label"][0])
        size = int(self._second_length(cut, rest, len(sample["partner_ids"]), is_other))
        other = sample["partner_ids"] if is_other else sample["ids"][cut:]
        return self.add_special_tokens_to_pair(sample["ids"][:cut], other[:size])

    def count_unused_tokens(self, samples: SampleBatch, examples: ExampleBatch) -> int:
        """Count the tokens of windows and partners that are in no segment."""
        total = len(samples.columns["ids"].values) + len(samples.columns["partner_ids"].values)
        return (
            total - len(examples.columns["input_ids"].values) + PAIR_SPECIAL_TOKENS * len(examples)
        )
