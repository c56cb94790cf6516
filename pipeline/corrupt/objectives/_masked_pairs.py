"""The base of objectives over masked segment pairs, `[CLS] a [SEP] b [SEP]`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.arrays import Bool, Int64, UInt64
from clozeline.columns import STARTS, Feature
from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives import Objective, RandomKeys
from clozeline.pipeline.corrupt.objectives._choice import (
    ANSWER,
    KEEP,
    MASK,
    WORD,
    Choice,
    PossibleChoices,
    one_row,
)
from clozeline.pipeline.corrupt.objectives._masked_rows import (
    MASKED_FEATURES,
    MaskShare,
    MaxLabels,
    RandomShare,
    check_shares,
    choose_tokens,
    mask_tokens,
    restore_labels,
    role_shares,
)
from clozeline.pipeline.group.groupings import GroupingSpec
from clozeline.pipeline.kernels.ragged import IdSet
from clozeline.pipeline.kernels.rates import Rate, count_at_rate, parts_per_million
from clozeline.pipeline.kernels.sampling import choose, draw_replacements, offsets_of
from clozeline.pipeline.rows import Example, Ragged, Sample, SampleBatch, segments
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import LABELS, below, random_bits

# Special tokens in a row of two segments.
PAIR_SPECIAL_TOKENS: Final = 3
# Share of windows that are shorter than a full row.
SHORT_RATE: Final = 0.1
_SEGMENT_STARTS: Final = Feature(
    "segment_starts", "uint16", STARTS, "starts of both segments: 0, and after [SEP]"
)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Two segments per row.

    Args:
        pool: arrays of ids; the segments are slices of their concatenation.
        starts: start of each segment in the concatenation, shape [rows, 2].
        lengths: tokens of each segment, at least one, shape [rows, 2].
        extra_features: additional features of the rows.
        opens_word: which entries of the pool open a word; None if the objective reads no words.
    """

    pool: tuple[NDArray[np.generic], ...]
    starts: Int64
    lengths: Int64
    extra_features: Mapping[str, Ragged]
    opens_word: Bool | None = None


PAIR_CHOICES: Final = PossibleChoices("[no, 2: mask, 4: hat, 5: keep]", (MASK, WORD, KEEP, ANSWER))
"""choices for a pair with the question whether the second segment follows"""


@config_class
class MaskedPairOptions:
    """Options that all objectives over segment pairs share."""

    max_length: Annotated[
        int, Field(ge=5, description="Tokens in a full row, [CLS] and both [SEP] included.")
    ] = 512
    mask_rate: Annotated[
        Rate, Field(description="Share of the maskable tokens of both segments that become labels.")
    ] = 0.15
    mask_share: MaskShare = 0.8
    random_share: RandomShare = 0.1
    max_labels: MaxLabels = None

    def __post_init__(self) -> None:
        if self.mask_rate == 0:
            raise ValueError("mask_rate 0 leaves no label; expected more than 0")
        check_shares(self.mask_share, self.random_share)


class MaskedPair(Objective, ABC):
    """Masked LM over two segments, which a subclass chooses with `choose_pairs`.

    The subclass may add features after `segment_starts`.
    """

    options: Any
    architectures = ("encoder",)
    choices = PossibleChoices("[2: mask, 4: hat, 5: keep]", (MASK, WORD, KEEP))

    def __init__(self, options: Any, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self.special = IdSet(vocabulary.special)
        self.pair_length = options.max_length - PAIR_SPECIAL_TOKENS
        self.first_token, self.last_token = self.id_of("cls"), self.id_of("sep")
        self._frame_ids = np.array([self.first_token, self.last_token], vocabulary.id_dtype)
        self._mask = self.id_of("mask")
        self._rate = parts_per_million(options.mask_rate)
        self.shares = role_shares(options)
        self._mask_ppm, self._random_ppm = map(
            parts_per_million, (options.mask_share, options.random_share)
        )
        self.features = (*MASKED_FEATURES, _SEGMENT_STARTS, *self.pair_features())

    @abstractmethod
    def pair_features(self) -> tuple[Feature, ...]:
        """Return additional features, after the features of masked LM and `segment_starts`."""

    @abstractmethod
    def choose_pairs(self, samples: SampleBatch, keys: UInt64) -> Pairs:
        """Choose the two segments of every row."""

    def budget(self, maskable: Int64) -> Int64:
        """Return the number of labels of each row, from its number of maskable tokens."""
        return count_at_rate(maskable, self._rate, self.options.max_labels)

    def select_positions(self, keys: UInt64, rows: Ragged, pairs: Pairs) -> Ragged:
        """Choose the labels; return their flat positions in `rows`, ascending.

        By default all tokens that are not special are equally likely.
        """
        if any(self.special.contains_any(ids) for ids in pairs.pool):
            return choose_tokens(keys, rows, self.special, self.budget)

        sizes = pairs.lengths.sum(axis=1)
        # without special tokens inside: choose content indices, then shift them over [CLS] and the
        # first [SEP]
        chosen = choose(keys, sizes, self.budget(sizes))
        flat_positions = chosen.values.astype(np.int64)
        flat_positions += flat_positions >= np.repeat(pairs.lengths[:, 0], chosen.lengths)
        return Ragged(
            flat_positions + np.repeat(rows.offsets[:-1] + 1, chosen.lengths), chosen.offsets
        )

    def corrupt_rows(self, samples: SampleBatch, random_keys: RandomKeys) -> Mapping[str, Ragged]:
        """Choose the pairs, then mask both segments together."""
        keys = random_keys.for_label(self.label)
        pairs = self.choose_pairs(samples, keys)
        rows = self.join_pairs(pairs)

        def replacement_ids(original: Ragged) -> NDArray[np.generic]:
            return draw_replacements(
                keys,
                original,
                mask=self._mask,
                replaceable=self.vocabulary.replaceable,
                mask_ppm=self._mask_ppm,
                random_ppm=self._random_ppm,
            )

        if self.chosen is not None and self.chosen.spans:
            columns = self._mask_chosen(rows, self.chosen, pairs)
        else:
            columns = mask_tokens(rows, self.select_positions(keys, rows, pairs), replacement_ids)
        seconds = np.zeros((len(rows), 2), np.uint16)
        seconds[:, 1] = pairs.lengths[:, 0] + 2
        return {**columns, "segment_starts": Ragged.from_matrix(seconds), **pairs.extra_features}

    def _mask_chosen(self, rows: Ragged, choice: Choice, pairs: Pairs) -> dict[str, Ragged]:
        """Mask the chosen tokens of a pair; those of the second segment count after the first."""
        first, second = pairs.lengths[0].tolist()
        tokens = choice.tokens(first + second)
        positions = tokens + 1 + (tokens >= first)
        if self.special.contains_any(rows.values[positions]):
            raise self.refuse_options("choose: a special token is never a label")
        return mask_tokens(
            rows,
            one_row(positions),
            lambda original: choice.replace(tokens, original.values, self._mask),
        )

    def draw_cuts(self, samples: SampleBatch, keys: UInt64) -> tuple[NDArray[np.bool_], Int64]:
        """Draw a random bit and a cut for each window.

        The cut is the number of tokens before a random sentence other than the first.
        """
        starts = samples.columns["sentence_starts"]
        drawn = random_bits(keys, LABELS, 2)
        sentences = 1 + below(drawn[:, 1] >> np.uint64(32), (starts.lengths - 1).astype(np.uint64))
        is_other = drawn[:, 0] >> np.uint64(63) == 1
        if self.chosen is not None and self.chosen.follows is not None:
            is_other[:] = not self.chosen.follows
        return is_other, starts.values[starts.offsets[:-1] + sentences].astype(np.int64)

    def require_cut(self, sample: Sample, cut: int) -> None:
        """Raise ValueError if no sentence of a window, after the first, starts at token `cut`."""
        starts = sample["sentence_starts"].tolist()
        if cut not in starts[1:]:
            reason = f"the window is cut at {cut}, but its sentences start at {starts}"
            raise ValueError(f"objective '{self.label}': {reason}")

    def join_pairs(self, pairs: Pairs) -> Ragged:
        """Return `[CLS] a [SEP] b [SEP]` for every row."""
        return self.gather_pairs(pairs, np.concatenate((*pairs.pool, self._frame_ids)))

    def gather_pairs(self, pairs: Pairs, pool: NDArray[Any]) -> Ragged:
        """Gather the entries of a pool for `[CLS] a [SEP] b [SEP]`.

        The last two entries of the pool belong to [CLS] and [SEP].
        """
        # one gather: five pieces per row
        cls = len(pool) - len(self._frame_ids)
        starts = np.empty((len(pairs.starts), 5), np.int64)
        lengths = np.ones_like(starts)
        starts[:, 0] = cls
        starts[:, 2] = cls + 1
        starts[:, 4] = cls + 1
        starts[:, 1::2] = pairs.starts
        lengths[:, 1::2] = pairs.lengths
        values = segments(pool, starts.reshape(-1), lengths.reshape(-1))
        return Ragged(values, offsets_of(lengths.sum(axis=1)))

    def add_special_tokens_to_pair(
        self, first: NDArray[np.generic], second: NDArray[np.generic]
    ) -> NDArray[np.generic]:
        """Return `[CLS] a [SEP] b [SEP]` for one row."""
        pair = np.concatenate((self.add_special_tokens(first), second, self._frame_ids[1:]))
        return pair.astype(self.vocabulary.id_dtype)

    def segments_of(
        self, row: NDArray[np.generic], example: Example
    ) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
        """Return the two segments of a row, without special tokens.

        Raises:
            ValueError: `segment_starts` does not fit the row.
        """
        second = int(example["segment_starts"][1])
        found = (row[[0, second - 1, -1]] if 2 < second < len(row) else np.empty(0)).tolist()
        expected = self._frame_ids[[0, 1, 1]].tolist()
        if found != expected:
            raise ValueError(
                f"segment_starts {second} does not fit the row: expected the special tokens "
                f"{expected} around both segments, found {found}"
            )
        return row[1 : second - 1], row[second:-1]

    def _restore(self, example: Example) -> NDArray[np.generic]:
        original = restore_labels(example)
        self.segments_of(original, example)
        return original


def window_grouping(
    objective: Objective,
    length: int,
    short_rate: float = SHORT_RATE,
    *,
    partner: bool = True,
    complete_sentences: bool = False,
) -> GroupingSpec:
    """Return the spec of windows of `length` tokens of one document.

    With `partner` each window gets a partner from another document, which ends with a sentence if
    `complete_sentences`.
    """
    spec = objective.make_grouping("sentence_pair", length)
    options = {"length": spec.length, "short_rate": short_rate, "partner": partner}
    if complete_sentences:
        options["complete_sentences"] = True
    return GroupingSpec.of("sentence_pair", options)
