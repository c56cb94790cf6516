"""Masked rows: framed rows with some tokens masked, the places of these tokens, and their original ids.

Every objective of this family is undone by putting the labels back. They differ in the tokens that they choose and in
the ids that replace them.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.arrays import Int64, UInt64
from clozeline.configuration.config import STRICT
from clozeline.configuration.synonyms import MASK_SYNONYMS
from clozeline.pipeline.corrupt.objectives import Draws, Objective, Skip
from clozeline.pipeline.kernels.distributions import powers
from clozeline.pipeline.kernels.ragged import IdSet, add_special_tokens, shift_starts
from clozeline.pipeline.kernels.rates import Rate, count_at_rate, parts_per_million
from clozeline.pipeline.kernels.sampling import choose, choose_weighted, draw_replacements, offsets_of
from clozeline.pipeline.rows import Example, Feature, Ragged, SampleBatch
from clozeline.pipeline.vocabulary import Vocabulary

Budget: TypeAlias = Callable[[Int64], Int64]
"""From the number of maskable tokens of each row to its number of labels."""

MASKED_FEATURES: Final = (
    Feature("input_ids", "ids", 1, "framed row, corrupted"),
    Feature("label_positions", "uint16", 1, "ascending places in input_ids of the labels"),
    Feature("label_ids", "ids", 1, "original ids at label_positions"),
)
WEIGHT_FEATURES: Final = (
    Feature("label_weight", "float32", 0, "weight of the loss of each of the row's labels"),
    Feature("label_count", "uint16", 0, "what the row adds to the divisor of the summed loss"),
)
_STARTS: Final = Feature("document_starts", "uint16", 1, "places in input_ids where documents start, first 0")

# Descriptions are given as arguments: docstrings of attributes do not reach inheriting classes.
Separator: TypeAlias = Annotated[
    Literal["none", "sep", "eos"], Field(description="Special token between the documents of packed rows.")
]

MaskShare: TypeAlias = Annotated[Rate, Field(description="Share of labels whose token becomes [MASK].")]
RandomShare: TypeAlias = Annotated[
    Rate, Field(description="Share of labels whose token becomes a random id; the rest stays as it is.")
]
MaxLabels: TypeAlias = Annotated[
    Annotated[int, Field(ge=1)] | None,
    Field(description="Most labels in a row (BERT: 20 at 128 tokens, 77 at 512); none: no bound."),
]

FrequencyExponent: TypeAlias = Annotated[
    Rate,
    Field(description="Exponent e: tokens become labels by weights 1 / (count in the corpus)^e (XLM: 0.5); 0: alike."),
]

RowGrouping: TypeAlias = Annotated[
    Literal["packed", "full_sentences", "document"], Field(description="Grouping to read.")
]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class RowOptions:
    """Frame and grouping of a single row."""

    max_length: Annotated[int, Field(ge=3, description="Tokens in a full row, [CLS] and [SEP] included.")] = 512
    grouping: RowGrouping = "packed"
    separator: Separator = "sep"
    cross_documents: Annotated[
        bool,
        Field(description="Let attention cross documents in packed rows; false stores `document_starts`."),
    ] = True

    def __post_init__(self) -> None:
        """Check what concerns several options."""
        if not self.cross_documents and self.grouping == "document":
            raise ValueError("cross_documents: false concerns packed rows; a document row holds one document")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class MaskedOptions(RowOptions):
    """A row of which some tokens become labels."""

    RENAMED: ClassVar = {"rate": "mask_rate"}
    SYNONYMS: ClassVar = MASK_SYNONYMS
    mask_rate: Annotated[Rate, Field(description="Share of the maskable tokens that become labels.")] = 0.15

    def __post_init__(self) -> None:
        """Check that rows have labels."""
        super().__post_init__()
        if self.mask_rate == 0:
            raise ValueError("mask_rate 0 leaves no label; expected more than 0")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class RoleOptions(MaskedOptions):
    """Labels with BERT's three roles."""

    mask_share: MaskShare = 0.8
    random_share: RandomShare = 0.1
    max_labels: MaxLabels = None

    def __post_init__(self) -> None:
        """Check that the shares are parts of one whole."""
        super().__post_init__()
        check_shares(self.mask_share, self.random_share)


def check_shares(mask_share: float, random_share: float) -> None:
    """Check that the shares are parts of one whole."""
    if parts_per_million(mask_share) + parts_per_million(random_share) > 1_000_000:
        raise ValueError(f"mask_share {mask_share} + random_share {random_share} exceeds 1")


class SingleRow(Objective, ABC):
    """Rows framed `[CLS] x [SEP]` in which places of text are selected; specials inside are read and never selected."""

    architectures: ClassVar[tuple[str, ...]] = ("encoder",)
    heads: ClassVar[tuple[str, ...]] = ("masked_lm",)
    own_features: tuple[Feature, ...]
    """Features of the objective without `document_starts`."""

    def __init__(self, options: Any, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self._cls, self._sep = self.id_of("cls"), self.id_of("sep")
        self.special = IdSet(vocabulary.special)
        self.grouping = self.make_grouping(options.grouping, options.max_length - 2, options.separator)

    @property
    def features(self) -> tuple[Feature, ...]:  # type: ignore[override]
        """Return the objective's own features, and where documents start if attention stays inside them."""
        return self.own_features if self.options.cross_documents else (*self.own_features, _STARTS)

    def skip_reasons(self, samples: SampleBatch, skips: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Skip rows of specials only."""
        ids = samples.columns["ids"]
        if self.special.contains_any(ids.values):
            special = self.special.mask(ids.values)
            before = np.concatenate((np.zeros(1, np.int64), np.cumsum(~special, dtype=np.int64)))
            maskable = before[ids.offsets[1:]] - before[ids.offsets[:-1]]
            skips[(skips == Skip.NONE) & (maskable == 0)] = Skip.NO_MASKABLE
        return skips

    def add_special_tokens_to_rows(self, ids: Ragged) -> Ragged:
        """Return `[CLS] x [SEP]` for every row, a fresh array."""
        return add_special_tokens(ids, self._cls, self._sep)

    def add_special_tokens(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Return `[CLS] x [SEP]`."""
        return np.concatenate(([self._cls], ids, [self._sep])).astype(self.vocabulary.id_dtype)

    def document_starts(self, samples: SampleBatch, head: int = 1) -> dict[str, Ragged]:
        """Return the feature `document_starts` where it is declared; the head belongs to the first document.

        Args:
            samples: the rows.
            head: tokens of the frame in front of a row.
        """
        if self.options.cross_documents:
            return {}
        return {"document_starts": shift_starts(samples.columns["document_starts"], head)}


class MaskedRow(SingleRow):
    """`input_ids` with labels at `label_positions`; `label_ids` are the original ids there.

    A subclass may choose other tokens (`select`), replace them by other ids (`replacement_ids`, `role_owner`) and add
    features (`extra_features`). Options are a `MaskedOptions`. Those of a `RoleOptions` set the roles' shares;
    otherwise every label becomes [MASK].
    """

    own_features: tuple[Feature, ...] = MASKED_FEATURES

    def __init__(self, options: Any, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self.mask = self.id_of("mask")
        self._limit = getattr(options, "max_labels", None)
        self.mask_ppm = parts_per_million(getattr(options, "mask_share", 1.0))
        self.random_ppm = parts_per_million(getattr(options, "random_share", 0.0))

    def kernel(self, samples: SampleBatch, draws: Draws) -> Mapping[str, Ragged]:
        """Choose tokens, hide them, for all rows at once."""
        ids, keys = samples.columns["ids"], draws.keys(self.label)
        chosen = self.select(keys, ids, partial(self.budget, draws))
        rows = self.add_special_tokens_to_rows(ids)
        shift = rows.offsets[:-1] + 1 - ids.offsets[:-1]
        places = Ragged(chosen.values + np.repeat(shift, chosen.lengths), chosen.offsets)
        columns = mask_tokens(rows, places, lambda original: self.replacement_ids(keys, original, places))
        return {**columns, **self.extra_features(samples, keys, columns), **self.document_starts(samples)}

    def budget(self, draws: Draws, maskable: Int64) -> Int64:
        """Return the number of labels of each row, from its number of maskable tokens."""
        rate = parts_per_million(self.options.mask_rate)
        return count_at_rate(maskable, rate, maskable if self._limit is None else self._limit)

    def select(self, keys: UInt64, ids: Ragged, budget: Budget) -> Ragged:
        """Return flat places in `ids` of the labels, ascending; the default takes tokens uniformly."""
        return choose_tokens(keys, ids, self.special, budget)

    def replacement_ids(self, keys: UInt64, original: Ragged, places: Ragged) -> NDArray[Any]:
        """Return the ids that replace the labels, flat; the default draws a role for each label.

        Args:
            keys: one key a row.
            original: ids of the labels.
            places: their flat places in the framed rows.
        """
        return draw_replacements(
            keys, original, mask=self.mask, replaceable=self.vocabulary.replaceable, mask_ppm=self.mask_ppm,
            random_ppm=self.random_ppm, role_owner=self.role_owner(original, places),
        )  # fmt: skip

    def role_owner(self, original: Ragged, places: Ragged) -> Int64 | None:
        """Return for each label the (flat) one whose draw decides its role; by default each label draws its own."""
        return None

    def extra_features(self, samples: SampleBatch, keys: UInt64, columns: Mapping[str, Ragged]) -> Mapping[str, Ragged]:
        """Return further features; the default has no further features."""
        return {}

    def invert(self, example: Example) -> NDArray[Any]:
        """Put the labels back."""
        return restore_labels(example)


def restore_labels(example: Example) -> NDArray[Any]:
    """Return `input_ids` of one row with `label_ids` at `label_positions`, a fresh array.

    Raises:
        ValueError: the columns contradict each other.
    """
    original, positions, labels = (example[feature.name] for feature in MASKED_FEATURES)
    places = positions.astype(np.int64)
    if len(places) != len(labels) or len(places) == 0:
        raise ValueError(f"{len(places)} label_positions and {len(labels)} label_ids; expected as many, at least one")
    if places[-1] >= len(original) or (np.diff(places) < 1).any():
        raise ValueError(f"label_positions {places.tolist()} do not rise inside a row of {len(original)} tokens")
    original = original.copy()
    original[places] = labels
    return original


def choose_tokens(
    keys: UInt64, ids: Ragged, special: IdSet, budget: Budget, mean_times: NDArray[np.float64] | None = None
) -> Ragged:
    """Choose for each row a subset of its tokens that are not special; flat places in `ids`, ascending.

    Args:
        keys: one key a row.
        ids: rows, which may hold special tokens.
        special: what is never chosen.
        budget: from the number of maskable tokens of each row to the number that is chosen.
        mean_times: 1 / weight of each id of the vocabulary, as `choose_weighted` takes them; None: all alike.
    """
    maskable, first = maskable_tokens(ids, special)
    sizes = np.diff(first)
    if mean_times is None:
        chosen = choose(keys, sizes, budget(sizes))
    else:
        candidates = ids.values if maskable is None else ids.values[maskable]
        chosen = choose_weighted(keys, Ragged(mean_times.take(candidates), offsets_of(sizes)), budget(sizes))
    places = chosen.values + np.repeat(first[:-1], chosen.lengths)
    return Ragged(places if maskable is None else maskable[places], chosen.offsets)


def frequency_times(objective: Objective, exponent: float) -> NDArray[np.float64] | None:
    """Return count ** exponent for each id, the mean times of `choose_tokens`; None for the exponent 0.

    Raises:
        ConfigurationError: the corpus's counts are unknown.
    """
    if exponent == 0:
        return None
    counts = objective.vocabulary.token_counts
    if counts is None:
        raise objective.refuse_options(
            "frequency_exponent needs encode/token_counts.arrow above the samples; run the stage encode first"
        )
    return powers(counts, exponent)


def maskable_tokens(ids: Ragged, special: IdSet) -> tuple[Int64 | None, Int64]:
    """Return flat places of maskable tokens (None: all) and the bounds of each row among them."""
    if not special.contains_any(ids.values):
        return None, ids.offsets
    maskable = np.flatnonzero(~special.mask(ids.values))
    return maskable, np.searchsorted(maskable, ids.offsets)


def mask_tokens(rows: Ragged, places: Ragged, replacement_ids: Callable[[Ragged], NDArray[Any]]) -> dict[str, Ragged]:
    """Mask framed rows, in place, and return them with their labels.

    Args:
        rows: framed ids; changed in place.
        places: flat places of the labels in them, ascending (int64).
        replacement_ids: from the original ids of the labels to the ids that replace them, flat.
    """
    original = Ragged(rows.values[places.values], places.offsets)
    rows.values[places.values] = replacement_ids(original)
    positions = (places.values - np.repeat(rows.offsets[:-1], places.lengths)).astype(np.uint16)
    return {"input_ids": rows, "label_positions": Ragged(positions, places.offsets), "label_ids": original}
