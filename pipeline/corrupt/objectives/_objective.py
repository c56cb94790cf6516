"""The base class of objectives: it declares features, corrupts batches and skips unusable rows."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from clozeline import plugins
from clozeline.arrays import UInt8
from clozeline.columns import STARTS, Feature, Role
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.corrupt.objectives._choice import Choice, PossibleChoices
from clozeline.pipeline.group.groupings import GroupingSpec, MinimumRow
from clozeline.pipeline.kernels.ragged import flatten_positions, scatter_rows, trim
from clozeline.pipeline.registries import GROUPINGS, OBJECTIVES
from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.rows import (
    WORD_STARTS,
    Example,
    ExampleBatch,
    Ragged,
    RowBatch,
    Sample,
    SampleBatch,
)
from clozeline.pipeline.vocabulary import ADD_SPECIALS, Vocabulary
from clozeline.seeding import kernel_keys, random_bits, reverse_bits

# Most content tokens in a row whose positions are stored as uint16: the special tokens still fit.
LONGEST_ROW: Final = 65_000

# Features of packed pairs with `cross_documents: false`. A document without target tokens starts at
# the same position as the next one.
DOCUMENT_FEATURES: Final = (
    Feature("document_starts", "uint16", STARTS, "starts of documents, first 0"),
    Feature(
        "target_document_starts",
        "uint16",
        Role("start", "target_ids"),
        "starts of the same documents, first 0",
    ),
)

LANGUAGE_FEATURES: Final = (
    Feature("languages", "uint8", Role("row", below="languages"), "code of the row's language"),
)


class Skip(IntEnum):
    """Reason why a sample gives no example; 0 if it gives one."""

    NONE = 0
    EMPTY = 1
    TOO_SHORT = 2
    TOO_LONG = 3
    ONE_SENTENCE = 4
    NO_MASKABLE = 5
    NO_PARTNER = 6
    NO_LANGUAGE_TOKEN = 7

    @property
    def reason(self) -> str:
        """Return the name of the reason in counts and reports, such as `too_short`."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class RandomKeys:
    """Keys of all random choices in a batch: they follow from seed, sample uids and variants."""

    seed: int
    uids: NDArray[np.uint64]
    variants: NDArray[np.uint16]

    def for_label(self, label: str) -> NDArray[np.uint64]:
        """Return one key per row, for the objective, part or step with this label."""
        return kernel_keys(self.seed, label, self.uids, self.variants)

    def draw_stratified(self, label: str, stream: int) -> NDArray[np.uint64]:
        """Return 32 uniform random bits per row, stratified over the variants of the row.

        Variant v shifts the bits of its row by entry v of the van der Corput sequence 0, 1/2, 1/4,
        3/4, ... times 2**32. So if 2**b consecutive variants start at a multiple of 2**b, each of
        2**b equal bins holds one of them.
        """
        keys = kernel_keys(self.seed, label, self.uids, np.zeros_like(self.variants))
        shift = reverse_bits(self.variants).astype(np.uint64) << np.uint64(16)
        return ((random_bits(keys, stream, 1)[:, 0] >> np.uint64(32)) + shift) & np.uint64(
            0xFFFFFFFF
        )


class Objective(ABC):
    """A pretraining objective with its options, for one vocabulary.

    A subclass sets the class variables. Its constructor sets `features` and `grouping`, and
    `minimum` and what its rows look like if they differ from the defaults.

    Args:
        options: an instance of the nested `Options`.
        vocabulary: properties of the tokenizer.
        label: unique name within a recipe, which keys the random draws; default: the file's name.

    Raises:
        ConfigurationError: the vocabulary lacks a special token, or the options contradict each
            other.
    """

    name: ClassVar[str]
    """what selects it: the name of its file, or `module:Class`"""
    VERSION: ClassVar[int] = 1
    """raised when the same input gives other bytes"""
    architectures: ClassVar[tuple[str, ...]]
    heads: ClassVar[tuple[str, ...]]
    Options: ClassVar[Any]
    longest_row: ClassVar[int | None] = LONGEST_ROW
    """most content tokens in a row; None if positions are not limited to 16 bits"""
    reads_words: bool = False
    """whether it treats words as units; then `opens_word` tells where they start"""
    draws_by_label: ClassVar[bool] = True
    """False if the labels of its parts key the draws, so that the objective's label has no
    effect"""
    min_redrawn_share: ClassVar[float] = 0.95
    """minimum share of rows (64 tokens, 8 sentences, default options) that another variant corrupts
    differently; 0: the objective draws nothing"""
    keeps_order: ClassVar[bool] = True
    """False if labeled tokens have another order in the input than in the original"""

    options: object
    """read by the objective alone; others ask what it declares"""
    features: tuple[Feature, ...]
    grouping: GroupingSpec
    minimum: MinimumRow = MinimumRow()
    padding_side: Literal["left", "right"] = "right"
    decoder_start: int | Literal["target_end"] | None = None
    predict_from: Literal["same", "previous"] = "same"
    restarts_segments: bool = False
    predicts_next: bool = False
    has_sentinels: bool = False
    front: tuple[int, ...] = ()
    """ids before the content of an input that are no part of the original"""
    language_tokens: Mapping[str, int] = MappingProxyType({})
    longest_input: int | None = None
    parts: "Sequence[Objective]" = ()
    """the objectives of a mixture, in order; a row is of one of them"""
    choices: PossibleChoices | None = None
    """what a user can choose instead of a random draw; None: nothing"""
    shares: Mapping[str, float] = MappingProxyType({})
    """what draws give on average: the share of tokens that are `labels` or in `spans`, of labels
    that are `masked` or `random`, and the `length` of a span; without what depends on the row"""
    draws_evenly: bool = True
    """whether each outcome of its draw is equally likely"""
    chosen: Choice | None = None
    """what the user chose, for a batch of one row; None: everything is drawn"""
    first_token: int | None = None
    """id of the special token before the content; None: no special token"""
    last_token: int | None = None
    """id of the special token after the content; None: no special token"""
    caution: str = ""
    """what a model of these rows cannot do, for a warning; empty: nothing"""

    def __init_subclass__(cls) -> None:
        cls.name = plugins.name_of(cls)

    def __init__(self, options: Any, vocabulary: Vocabulary, label: str | None = None) -> None:
        self.options = options
        self.vocabulary = vocabulary
        self.label = label or plugins.short_name(self.name)
        self.architecture: str = getattr(options, "architecture", self.architectures[0])
        self.longest_input = getattr(options, "max_length", None)

    @property
    def reads_sentences(self) -> bool:
        """Return whether it learns from the sentences of a row, so that one is not enough."""
        return max(self.minimum.sentences, self.grouping.algorithm.least_sentences) > 1

    @property
    def form(self) -> RowForm:
        """Return what its rows look like."""
        separator = self.grouping.separator
        names = {feature.name for feature in self.features}
        head, tail = (
            () if token is None else (token,) for token in (self.first_token, self.last_token)
        )
        return RowForm(
            padding_side=self.padding_side,
            decoder_start=self.decoder_start,
            predict_from=self.predict_from,
            restarts_segments=self.restarts_segments,
            predicts_next=self.predicts_next,
            is_fixed=self.min_redrawn_share == 0,
            has_sentinels=self.has_sentinels,
            head=(*head, *self.front),
            between=tail if "segment_starts" in names else (),
            tail=tail,
            separator=None
            if separator == "none" or self.architecture != "decoder" or "document_starts" in names
            else self.id_of(separator),
            longest_input=self.longest_input,
            language_tokens=dict(self.language_tokens),
        )

    @property
    def content_length(self) -> int:
        """Return the number of content tokens in a full row."""
        return self.grouping.length

    def longest_example(self, content: int) -> int:
        """Return the most ids in a column of an example of up to `content` content tokens."""
        framed = len(self.add_special_tokens(np.zeros(content, np.int64)))
        # special tokens between texts are not in the samples
        added = (self.longest_input or 0) - self.content_length
        return max(framed, content + added)

    def corrupt(
        self, samples: SampleBatch, variants: NDArray[np.uint16], seed: int
    ) -> tuple[ExampleBatch, UInt8]:
        """Corrupt a batch; row i of the result belongs to row i of the input.

        Args:
            samples: sample rows of `self.grouping`; not modified.
            variants: variant of each row, shape [n].
            seed: seed of corruption.

        Returns:
            Examples with the features `self.features`, and the `Skip` code of each row, shape [n]
            uint8. Skipped rows are empty in every list column.
        """
        variants = np.asarray(variants, dtype=np.uint16)
        samples = RowBatch(
            samples.fixed, {name: trim(column) for name, column in samples.columns.items()}
        )

        # corrupt the rows that are not skipped, then scatter them over all rows
        skips = self.skip_codes(samples)
        rows = np.flatnonzero(skips == Skip.NONE)
        complete = len(rows) == len(samples)
        usable = samples if complete else samples.take(rows)
        random_keys = RandomKeys(
            seed, usable.fixed["uid"], variants if complete else variants[rows]
        )
        columns = self.make_columns(usable, random_keys)

        if not complete:
            columns = {
                name: scatter_rows(column, rows, len(samples)) for name, column in columns.items()
            }

        fixed = {**samples.fixed, "variant": variants}
        return RowBatch(fixed, columns), skips

    def make_columns(self, samples: SampleBatch, random_keys: RandomKeys) -> dict[str, Ragged]:
        """Return the columns of `corrupt_rows`, in the order of `features`.

        Raises:
            IntegrityError: a returned column is not declared, a declared one is not returned, or a
                value would be taken for a missing one.
        """
        columns = self.corrupt_rows(samples, random_keys)
        declared = [feature.name for feature in self.features]
        if odd := sorted(columns.keys() ^ set(declared)):
            raise IntegrityError(
                f"objective '{self.label}' ({self.name}): column {odd[0]}: declare and return the "
                f"same columns: `features` are {declared}, `corrupt_rows` returned {[*columns]}"
            )
        for feature in self.features:
            feature.stored_role.refuse_ignored(feature.name, columns[feature.name].values)
        return {name: columns[name] for name in declared}

    def skip_codes(self, samples: SampleBatch) -> UInt8:
        """Return the `Skip` code of each row, shape [rows]."""
        lengths = samples.columns["ids"].lengths
        skips = np.zeros(len(lengths), dtype=np.uint8)
        if len(lengths) == 0:
            return skips
        if lengths.max() > self.content_length:
            skips[lengths > self.content_length] = Skip.TOO_LONG
        if self.minimum.sentences > 1:
            skips[samples.columns["sentence_starts"].lengths < self.minimum.sentences] = (
                Skip.ONE_SENTENCE
            )

        if lengths.min() < max(1, self.minimum.tokens):
            skips[lengths < self.minimum.tokens] = Skip.TOO_SHORT
            skips[lengths == 0] = Skip.EMPTY

        return self.add_skip_reasons(samples, skips)

    def add_skip_reasons(self, samples: SampleBatch, skips: UInt8) -> UInt8:
        """Add the skip codes that depend on the ids; none by default."""
        return skips

    @abstractmethod
    def corrupt_rows(self, samples: SampleBatch, random_keys: RandomKeys) -> Mapping[str, Ragged]:
        """Return the features of a batch of rows; all of them can be corrupted."""

    def opens_word(self, samples: SampleBatch) -> NDArray[np.bool_]:
        """Return which tokens open a word, flat, by word starts from segmenters or by the pieces.

        A word also opens at the first token of a row and after a special token; the caller adds
        these.
        """
        ids = samples.columns["ids"]
        words = samples.columns.get(WORD_STARTS.name)
        if words is None:
            return self.vocabulary.opens_word(ids.values)
        opens = np.zeros(len(ids.values), dtype=np.bool_)
        opens[flatten_positions(words, ids.offsets)] = True
        return opens

    def add_special_tokens(self, ids: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the content of one row with special tokens, as `restore` returns it."""
        front, back = (
            [] if token is None else [token] for token in (self.first_token, self.last_token)
        )
        return np.concatenate((front, ids, back)).astype(self.vocabulary.id_dtype)

    def require_token_counts(self, wanted_by: str) -> NDArray[np.uint64]:
        """Return how often each id occurs in the corpus.

        Raises:
            ConfigurationError: the counts are unknown; the message names what needs them.
        """
        if self.vocabulary.corpus is None:
            raise self.refuse_options(
                f"{wanted_by} needs the counts of the ids in the corpus, which sets of the stages "
                "encode and group have in token_counts.arrow; run the stages again"
            )
        return self.vocabulary.corpus.read("counts")

    def restore(self, example: Example) -> NDArray[np.generic]:
        """Return the original row with special tokens, from the example alone.

        Raises:
            ValueError: the example lacks a column, or contradicts itself.
        """
        try:
            return self._restore(example)
        except (ArithmeticError, LookupError, TypeError) as error:
            raise ValueError(
                f"objective '{self.label}': the example contradicts itself ({error!r})"
            ) from error
        except ValueError as error:
            if str(error).startswith("objective '"):
                raise
            raise ValueError(f"objective '{self.label}': {error}") from error

    @abstractmethod
    def _restore(self, example: Example) -> NDArray[np.generic]:
        """Return what `restore` returns.

        For a damaged example it may raise any arithmetic, lookup, type or value error.
        """

    def original(self, sample: Sample, example: Example) -> NDArray[np.generic]:
        """Return what `restore(example)` must return for an example of this sample.

        By default this is the complete row. Objectives that use a part of a sample, or reorder its
        sides, override it.
        """
        return self.add_special_tokens(sample["ids"])

    def count_unused_tokens(self, samples: SampleBatch, examples: ExampleBatch) -> int:
        """Count the tokens of these samples that are not in their examples.

        By default, those of partners from other documents.
        """
        partners = samples.columns.get("partner_ids")
        return 0 if partners is None else len(partners.values)

    def tally(self, examples: ExampleBatch) -> dict[str, object]:
        """Return additional counts for the report; none by default."""
        return {}

    def id_of(self, special: str) -> int:
        """Return the id of a special token, or raise a ConfigurationError."""
        return self.vocabulary.id_of(special, f"objective '{self.label}' ({self.name})")

    def mode_id(self, mode: str) -> int | None:
        """Return the id of a mode token (`R`, `S`, `X`); None for `none`."""
        modes = self.vocabulary.modes
        if mode == "none":
            return None
        if mode not in modes:
            raise self.refuse_options(
                f"mode {mode} needs the mode token {mode}, the tokenizer has: "
                f"{', '.join(sorted(modes)) or 'none'}; {ADD_SPECIALS}"
            )
        return modes[mode]

    def refuse_options(
        self, message: str, error_type: type[ConfigurationError] = ConfigurationError
    ) -> ConfigurationError:
        """Return an error about the options of this objective."""
        return error_type(f"objective '{self.label}' ({self.name}): {message}")

    def make_grouping(self, name: str, length: int, separator: str = "none") -> GroupingSpec:
        """Return the spec of a grouping, after checking the row length."""
        if length < 1:
            raise self.refuse_options(
                f"special tokens leave {length} tokens for text; raise max_length"
            )
        if self.longest_row is not None and length > self.longest_row:
            raise self.refuse_options(
                f"rows of {length} content tokens are too long: at most {self.longest_row}, "
                "because positions are stored in 16 bits; lower max_length"
            )
        has_separator = GROUPINGS.load_class(name).has_separator
        return GroupingSpec(name, length, separator if has_separator else "none")


def build_objective(
    entry: str | Mapping[str, object], vocabulary: Vocabulary, label: str | None = None
) -> Objective:
    """Build an objective from its name or `{name: ..., option: ...}`, as in configurations."""
    objective: Objective = OBJECTIVES.resolve(entry).build(vocabulary, label)
    return objective
