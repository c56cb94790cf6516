"""The base of masked objectives over single rows: masked input, label positions, original ids.

The objectives differ in the tokens that they choose and in the ids that replace them.
"""

from abc import ABC
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.arrays import Int64, UInt8, UInt64
from clozeline.columns import IDS, POSITIONS, ROW, WEIGHT, Feature, Role
from clozeline.configuration.config import Positive, config_class
from clozeline.pipeline.corrupt.objectives._choice import KEEP, MASK, WORD, PossibleChoices, one_row
from clozeline.pipeline.corrupt.objectives._groupings import GroupingName, check_grouping
from clozeline.pipeline.corrupt.objectives._objective import (
    DOCUMENT_FEATURES,
    Objective,
    RandomKeys,
    Skip,
)
from clozeline.pipeline.kernels.distributions import powers
from clozeline.pipeline.kernels.ragged import (
    IdSet,
    add_special_tokens,
    flatten_positions,
    scalars,
    shift_starts,
)
from clozeline.pipeline.kernels.rates import Rate, count_at_rate, parts_per_million
from clozeline.pipeline.kernels.sampling import (
    choose,
    choose_weighted,
    draw_replacements,
    offsets_of,
)
from clozeline.pipeline.rows import Example, Ragged, SampleBatch
from clozeline.pipeline.vocabulary import Vocabulary

# Maps the number of maskable tokens of each row to its number of labels.
Budget: TypeAlias = Callable[[Int64], Int64]

MASKED_FEATURES: Final = (
    Feature("input_ids", "ids", IDS, "corrupted row with special tokens"),
    Feature("label_positions", "uint16", POSITIONS, "positions of the labels, ascending"),
    Feature(
        "label_ids", "ids", Role("label", "label_positions"), "original ids at label_positions"
    ),
)
WEIGHT_FEATURES: Final = (
    Feature("label_weight", "float32", WEIGHT, "weight of the loss of each of the row's labels"),
    Feature("label_count", "uint16", WEIGHT, "the row's share of the divisor of the summed loss"),
)
# Attention modes (UniLM), stored with rows that are not read bidirectionally.
Attention: TypeAlias = Literal["bidirectional", "left_to_right", "right_to_left", "prefix"]
_ATTENTION_CODES: Final[tuple[Attention, ...]] = (
    "bidirectional",
    "left_to_right",
    "right_to_left",
    "prefix",
)
ATTENTION_FEATURES: Final = (
    Feature(
        "attention",
        "uint8",
        Role("row", below=4),
        "position i attends to 1: positions j <= i, 2: j >= i, 3: j <= i or j < prefix_length",
    ),
    Feature(
        "prefix_length",
        "uint16",
        ROW,
        "tokens of input_ids that every position attends to; 0 unless attention is 3",
    ),
)
# Descriptions are given as arguments: docstrings of attributes do not reach inheriting classes.
Separator: TypeAlias = Annotated[
    Literal["none", "sep", "eos"],
    Field(description="Special token between the documents of packed rows."),
]

MaskShare: TypeAlias = Annotated[
    Rate, Field(description="Share of labels whose token becomes [MASK].")
]
RandomShare: TypeAlias = Annotated[
    Rate,
    Field(
        description="Share of labels whose token becomes a random id of the corpus; the others "
        "stay unchanged."
    ),
]
MaxLabels: TypeAlias = Annotated[
    Positive | None,
    Field(description="Most labels in a row (BERT: 20 at 128 tokens, 77 at 512); none: no limit."),
]

FrequencyExponent: TypeAlias = Annotated[
    Rate,
    Field(
        description="Exponent e: tokens become labels with the weights 1 / (count in the corpus)^e "
        "(XLM: 0.5); 0: all tokens are equally likely."
    ),
]

RowGrouping: TypeAlias = Annotated[GroupingName, Field(description="Grouping to read.")]


@config_class
class SingleRowOptions:
    """Options that all objectives over single rows share."""

    max_length: Annotated[
        int, Field(ge=3, description="Tokens in a full row, [CLS] and [SEP] included.")
    ] = 512
    grouping: RowGrouping = "packed"
    separator: Separator = "sep"
    cross_documents: Annotated[
        bool,
        Field(
            description="Let attention cross documents in packed rows; false stores "
            "`document_starts`."
        ),
    ] = True

    def __post_init__(self) -> None:
        check_grouping(self)


@config_class
class MaskedOptions(SingleRowOptions):
    """Options of rows in which some tokens become labels."""

    mask_rate: Annotated[
        Rate, Field(description="Share of the maskable tokens that become labels; 0.15 is 15 %.")
    ] = 0.15

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mask_rate == 0:
            raise ValueError("mask_rate 0 leaves no label; expected more than 0")


@config_class
class RoleOptions(MaskedOptions):
    """Options of labels that become [MASK] or a random id, or stay unchanged (BERT)."""

    mask_share: MaskShare = 0.8
    random_share: RandomShare = 0.1
    max_labels: MaxLabels = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shares(self.mask_share, self.random_share)


def check_shares(mask_share: float, random_share: float) -> None:
    """Raise ValueError if the shares add up to more than 1."""
    if parts_per_million(mask_share) + parts_per_million(random_share) > 1_000_000:
        raise ValueError(
            f"mask_share {mask_share} + random_share {random_share} exceeds 1; lower one of them"
        )


def role_shares(options: Any) -> dict[str, float]:
    """Return the shares of labels that become [MASK] or random, and of tokens that are labels."""
    shares = {"masked": options.mask_share, "random": options.random_share}
    rate = options.mask_rate
    return shares | ({"labels": rate} if isinstance(rate, float) else {})


class SingleRow(Objective, ABC):
    """The base of objectives over rows `[CLS] x [SEP]`; special tokens are never selected."""

    architectures: ClassVar[tuple[str, ...]] = ("encoder",)
    heads: ClassVar[tuple[str, ...]] = ("masked_lm",)
    options: Any
    base_features: tuple[Feature, ...]
    """features of the objective without `document_starts`"""

    def __init__(self, options: Any, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self.first_token, self.last_token = self.id_of("cls"), self.id_of("sep")
        self.special = IdSet(vocabulary.special)
        self.grouping = self.make_grouping(
            options.grouping, options.max_length - 2, options.separator
        )

    @property
    def features(self) -> tuple[Feature, ...]:  # type: ignore[override]
        return (
            self.base_features
            if self.options.cross_documents
            else (*self.base_features, DOCUMENT_FEATURES[0])
        )

    def add_skip_reasons(self, samples: SampleBatch, skips: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return skip_unmaskable(skips, self.special, samples.columns["ids"])

    def add_special_tokens_to_rows(self, ids: Ragged) -> Ragged:
        """Return `[CLS] x [SEP]` for every row, as a new array."""
        return add_special_tokens(ids, self.first_token, self.last_token)

    def document_starts(self, samples: SampleBatch, head: int = 1) -> dict[str, Ragged]:
        """Return the column `document_starts` if the options demand it.

        Rows have `head` special tokens in front.
        """
        if self.options.cross_documents:
            return {}
        return {"document_starts": shift_starts(samples.columns["document_starts"], head)}


class MaskedRow(SingleRow):
    """The base of masked LM: labels at `label_positions`, whose original ids are `label_ids`.

    A subclass may choose other tokens (`select_positions`, or `choose_labels` from the samples),
    replace them with other ids (`replacement_ids`, `role_owner`) and add features
    (`extra_features`). With `RoleOptions` a label becomes [MASK] or random, or stays unchanged;
    with `MaskedOptions` it always becomes [MASK].
    """

    base_features: tuple[Feature, ...] = MASKED_FEATURES
    choices = PossibleChoices("[2: mask, 4: hat, 5: keep]", (MASK, WORD, KEEP))

    def __init__(self, options: Any, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self.mask = self.id_of("mask")
        self._limit = getattr(options, "max_labels", None)
        if isinstance(options, RoleOptions):
            self.shares = role_shares(options)
        self.mask_ppm = parts_per_million(self.shares.get("masked", 1.0))
        self.random_ppm = parts_per_million(self.shares.get("random", 0.0))

    def corrupt_rows(self, samples: SampleBatch, random_keys: RandomKeys) -> Mapping[str, Ragged]:
        ids = samples.columns["ids"]
        keys = random_keys.for_label(self.label)
        if self.chosen is None:
            chosen = self.choose_labels(samples, keys, partial(self.budget, random_keys))
        else:
            chosen = one_row(self.chosen.tokens(len(ids.values)))
            if self.special.contains_any(ids.values[chosen.values]):
                raise self.refuse_options("choose: a special token is never a label")
        rows = self.add_special_tokens_to_rows(ids)

        # flat positions move by the special tokens in front of them
        shift = rows.offsets[:-1] + 1 - ids.offsets[:-1]
        flat_positions = Ragged(chosen.values + np.repeat(shift, chosen.lengths), chosen.offsets)
        columns = mask_tokens(
            rows,
            flat_positions,
            lambda original: (
                self.replacement_ids(keys, original, flat_positions, samples)
                if self.chosen is None
                else self.chosen.replace(chosen.values, original.values, self.mask)
            ),
        )

        return {
            **columns,
            **self.extra_features(samples, keys, columns),
            **self.document_starts(samples),
        }

    def budget(self, random_keys: RandomKeys, maskable: Int64) -> Int64:
        """Return the number of labels of each row, from its number of maskable tokens."""
        return count_at_rate(maskable, parts_per_million(self.options.mask_rate), self._limit)

    def choose_labels(self, samples: SampleBatch, keys: UInt64, budget: Budget) -> Ragged:
        """Return the flat positions of the labels in the ids of `samples`, ascending.

        By default `select_positions` chooses them.
        """
        return self.select_positions(keys, samples.columns["ids"], budget)

    def select_positions(self, keys: UInt64, ids: Ragged, budget: Budget) -> Ragged:
        """Choose the labels; return their flat positions in `ids`, ascending.

        By default all tokens that are not special are equally likely.
        """
        return choose_tokens(keys, ids, self.special, budget)

    def replacement_ids(
        self, keys: UInt64, original: Ragged, flat_positions: Ragged, samples: SampleBatch
    ) -> NDArray[np.generic]:
        """Return the ids that replace the labels (`original`), flat.

        By default they are [MASK], random ids or the original ids.
        """
        return draw_replacements(
            keys,
            original,
            mask=self.mask,
            replaceable=self.vocabulary.replaceable,
            mask_ppm=self.mask_ppm,
            random_ppm=self.random_ppm,
            role_owner=self.role_owner(original, flat_positions, samples),
        )

    def role_owner(
        self, original: Ragged, flat_positions: Ragged, samples: SampleBatch
    ) -> Int64 | None:
        """Return for each label the flat index of the label whose draw decides its role.

        None: each label is drawn separately.
        """
        return None

    def extra_features(
        self, samples: SampleBatch, keys: UInt64, columns: Mapping[str, Ragged]
    ) -> Mapping[str, Ragged]:
        """Return additional features; none by default."""
        return {}

    def _restore(self, example: Example) -> NDArray[np.generic]:
        return restore_labels(example)


def restore_labels(example: Example) -> NDArray[np.generic]:
    """Return `input_ids` of one row with `label_ids` at `label_positions`, as a new array."""
    original, positions, labels = (example[feature.name] for feature in MASKED_FEATURES)
    positions = positions.astype(np.int64)
    if len(positions) != len(labels) or len(positions) == 0:
        raise ValueError(
            f"expected as many label_positions as label_ids, at least one; got {len(positions)} "
            f"and {len(labels)}"
        )

    if positions[-1] >= len(original) or (np.diff(positions) < 1).any():
        raise ValueError(
            f"label_positions {positions.tolist()} must be ascending positions in a row of "
            f"{len(original)} tokens"
        )

    original = original.copy()
    original[positions] = labels
    return original


def choose_tokens(
    keys: UInt64,
    ids: Ragged,
    special: IdSet,
    budget: Budget,
    mean_times: NDArray[np.float64] | None = None,
) -> Ragged:
    """Choose some tokens of each row, never special ones; return flat positions, ascending.

    Args:
        keys: one key per row.
        ids: rows, which may hold special tokens.
        special: ids that are never chosen.
        budget: maps the number of maskable tokens in each row to the number to choose.
        mean_times: 1 / weight of each id of the vocabulary, see `choose_weighted`; None: uniform.
    """
    maskable, first = maskable_tokens(ids, special)
    sizes = np.diff(first)
    if mean_times is None:
        chosen = choose(keys, sizes, budget(sizes))
    else:
        candidates = ids.values if maskable is None else ids.values[maskable]
        chosen = choose_weighted(
            keys, Ragged(candidates, offsets_of(sizes)), mean_times, budget(sizes)
        )
    flat_positions = flatten_positions(chosen, first)
    return Ragged(flat_positions if maskable is None else maskable[flat_positions], chosen.offsets)


class FrequencyWeights(Objective, ABC):
    """An objective with the option `frequency_exponent`."""

    options: Any

    @cached_property
    def mean_times(self) -> NDArray[np.float64] | None:
        """Return the mean times of `choose_tokens`, count ** exponent; None for the exponent 0."""
        # cached lazily: only drawing needs the token counts
        exponent = self.options.frequency_exponent
        return (
            powers(self.require_token_counts("frequency_exponent"), exponent) if exponent else None
        )


def attention_columns(attention: Attention, prefix_length: Int64) -> dict[str, Ragged]:
    """Return the columns of `ATTENTION_FEATURES` for rows of one mode.

    `prefix_length` are the tokens in the prefix of each row, shape [rows].
    """
    mode = np.full(len(prefix_length), _ATTENTION_CODES.index(attention), np.uint8)
    return {
        "attention": scalars(mode, np.uint8),
        "prefix_length": scalars(prefix_length, np.uint16),
    }


def maskable_tokens(ids: Ragged, special: IdSet) -> tuple[Int64 | None, Int64]:
    """Return the flat positions of maskable tokens (None: all), and the row offsets among them."""
    if not special.contains_any(ids.values):
        return None, ids.offsets
    maskable = np.flatnonzero(~special.mask(ids.values))
    return maskable, np.searchsorted(maskable, ids.offsets)


def maskable_lengths(ids: Ragged, special: IdSet) -> Int64:
    """Return the number of tokens of each row that are not special."""
    return np.diff(maskable_tokens(ids, special)[1])


def skip_unmaskable(skips: UInt8, special: IdSet, *sides: Ragged) -> UInt8:
    """Mark rows as skipped if no side of theirs has a maskable token."""
    empty = np.all([maskable_lengths(side, special) == 0 for side in sides], axis=0)
    skips[(skips == Skip.NONE) & empty] = Skip.NO_MASKABLE
    return skips


def mask_tokens(
    rows: Ragged, flat_positions: Ragged, replacement_ids: Callable[[Ragged], NDArray[Any]]
) -> dict[str, Ragged]:
    """Mask rows in place, and return them with their labels.

    Args:
        rows: ids with special tokens.
        flat_positions: flat positions of the labels in `rows`, ascending (int64).
        replacement_ids: maps the original ids of the labels to the ids that replace them, flat.
    """
    original = Ragged(rows.values[flat_positions.values], flat_positions.offsets)
    rows.values[flat_positions.values] = replacement_ids(original)
    positions = (
        flat_positions.values - np.repeat(rows.offsets[:-1], flat_positions.lengths)
    ).astype(np.uint16)
    return {
        "input_ids": rows,
        "label_positions": Ragged(positions, flat_positions.offsets),
        "label_ids": original,
    }
