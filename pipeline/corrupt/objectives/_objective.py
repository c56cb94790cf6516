"""The base of objectives: what they declare, how a batch of samples becomes examples, and why rows are skipped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import UInt8
from clozeline.errors import ConfigurationError
from clozeline.pipeline.group.groupings import GroupingSpec, MinimumRow
from clozeline.pipeline.kernels.ragged import scatter_rows, trim
from clozeline.pipeline.rows import Example, ExampleBatch, Feature, Ragged, Rows, Sample, SampleBatch
from clozeline.pipeline.vocabulary import ADD_SPECIALS, Vocabulary
from clozeline.registry import choose
from clozeline.seeding import kernel_keys, random_bits, reverse_bits

LONGEST_ROW: Final = 65_000
"""Most content tokens where places are stored as uint16: a frame adds a few tokens."""

DOCUMENT_FEATURES: Final = (
    Feature("document_starts", "uint16", 1, "places in input_ids where documents start, first 0"),
    Feature("target_document_starts", "uint16", 1, "places in target_ids where the same documents start, first 0"),
)
"""Features of pairs from packed rows whose documents are kept apart. A document without target tokens starts where the
next one does."""


class Skip(IntEnum):
    """Reason that a row has no example; 0 says that it has one."""

    NONE = 0
    EMPTY = 1
    TOO_SHORT = 2
    TOO_LONG = 3
    ONE_SENTENCE = 4
    NO_MASKABLE = 5
    NO_PARTNER = 6

    @property
    def reason(self) -> str:
        """Return the name in counts and reports: `too_short`."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Frame:
    """The facts of rows that batches must know; manifests record it.

    Args:
        padding_side: where pads go.
        decoder_start: id that opens the decoder's input, None without a decoder input of its own.
        predict_from: place from which the model predicts the label at place i: i itself, or i - 1, the previous one.
    """

    padding_side: Literal["left", "right"] = "right"
    decoder_start: int | None = None
    predict_from: Literal["same", "previous"] = "same"


@dataclass(frozen=True, slots=True)
class Draws:
    """Seed, sample uids and variants, from which all random choices of a batch follow."""

    seed: int
    uids: NDArray[np.uint64]
    variants: NDArray[np.uint16]

    def keys(self, label: str) -> NDArray[np.uint64]:
        """Return one key a row for the objective, part or step of that label."""
        return kernel_keys(self.seed, label, self.uids, self.variants)

    def draw_stratified(self, label: str, stream: int) -> NDArray[np.uint64]:
        """Return a 32-bit word a row that is uniform, and evenly spread over the variants of a row.

        Variants shift the row's own word by the van der Corput sequence 0, 1/2, 1/4, 3/4, ... times 2**32. Of 2**b
        variants, counted from a multiple of 2**b, each of 2**b equal bins holds one.
        """
        keys = kernel_keys(self.seed, label, self.uids, np.zeros_like(self.variants))
        shift = reverse_bits(self.variants).astype(np.uint64) << np.uint64(16)
        return ((random_bits(keys, stream, 1)[:, 0] >> np.uint64(32)) + shift) & np.uint64(0xFFFFFFFF)


class Objective(ABC):
    """One corruption with its options, bound to a vocabulary.

    A subclass sets the class variables, and in its constructor `features`, `grouping` and, where they are not the
    defaults, `minimum`, `frame`.

    Args:
        options: an instance of the nested `Options`.
        vocabulary: what may be known of the tokenizer.
        label: unique name within a recipe, keys the draws; default: the file's name.

    Raises:
        ConfigurationError: the vocabulary lacks a special token, or the options contradict each other.
    """

    name: ClassVar[str]
    VERSION: ClassVar[int]
    architectures: ClassVar[tuple[str, ...]]
    heads: ClassVar[tuple[str, ...]]
    Options: ClassVar[Any]
    longest_row: ClassVar[int | None] = LONGEST_ROW
    """Most content tokens of a row; None where neither features nor draws number places in 16 bits."""
    draws_by_label: ClassVar[bool] = True
    """False where its parts draw by labels of their own, so that its own label changes nothing."""
    redrawn: ClassVar[float] = 0.95
    """Least share of rows of 64 tokens in 8 sentences that another variant changes, by the default options, if any."""
    keeps_order: ClassVar[bool] = True
    """False where labelled tokens stand in another order in the input than in the original."""
    invertible: bool = True
    """True if `uncorrupt` gives back what `original` says."""

    features: tuple[Feature, ...]
    grouping: GroupingSpec
    minimum: MinimumRow = MinimumRow()
    frame: Frame = Frame()

    def __init__(self, options: Any, vocabulary: Vocabulary, label: str | None = None) -> None:
        self.options = options
        self.vocabulary = vocabulary
        self.label = label or self.name
        self.architecture: str = getattr(options, "architecture", self.architectures[0])

    @property
    def content_length(self) -> int:
        """Return the number of content tokens of a full row."""
        return self.grouping.length

    @property
    def min_tokens(self) -> int:
        """Return the fewest content tokens that a row needs."""
        return self.minimum.tokens

    @property
    def min_sentences(self) -> int:
        """Return the fewest sentences that a row needs."""
        return self.minimum.sentences

    def corrupt(self, samples: SampleBatch, variants: NDArray[np.uint16], seed: int) -> tuple[ExampleBatch, UInt8]:
        """Corrupt a batch; row i of the result belongs to row i of the input.

        Args:
            samples: sample rows of `self.grouping`; read only.
            variants: variant of each row, shape [n].
            seed: seed of corruption.

        Returns:
            Examples with the features of `self.features`, and a code of `Skip` for each row, shape [n] uint8. A
            skipped row is empty in every list column.
        """
        variants = np.asarray(variants, dtype=np.uint16)
        samples = Rows(samples.fixed, {name: trim(column) for name, column in samples.columns.items()})
        skips = self.screen(samples)
        rows = np.flatnonzero(skips == Skip.NONE)
        whole = len(rows) == len(samples)
        kept = samples if whole else samples.take(rows)
        draws = Draws(seed, kept.fixed["uid"], variants if whole else variants[rows])
        columns = self.kernel(kept, draws)
        if not whole:
            columns = {name: scatter_rows(column, rows, len(samples)) for name, column in columns.items()}
        fixed = {**samples.fixed, "variant": variants}
        return Rows(fixed, {feature.name: columns[feature.name] for feature in self.features}), skips

    def screen(self, samples: SampleBatch) -> UInt8:
        """Return the reason why each row has no example, 0 where it has one; shape [rows]."""
        lengths = samples.columns["ids"].lengths
        skips = np.zeros(len(lengths), dtype=np.uint8)
        if len(lengths) == 0:
            return skips
        if lengths.max() > self.content_length:
            skips[lengths > self.content_length] = Skip.TOO_LONG
        if self.minimum.sentences > 1:
            skips[samples.columns["sentence_starts"].lengths < self.minimum.sentences] = Skip.ONE_SENTENCE
        if lengths.min() < max(1, self.minimum.tokens):
            skips[lengths < self.minimum.tokens] = Skip.TOO_SHORT
            skips[lengths == 0] = Skip.EMPTY
        return self.skip_reasons(samples, skips)

    def skip_reasons(self, samples: SampleBatch, skips: UInt8) -> UInt8:
        """Add reasons that only the ids can show; the default adds none."""
        return skips

    @abstractmethod
    def kernel(self, samples: SampleBatch, draws: Draws) -> Mapping[str, Ragged]:
        """Return the features of rows that can all be corrupted, in one call a batch."""

    @abstractmethod
    def add_special_tokens(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Return the framed original of one row, which `uncorrupt` gives back."""

    def uncorrupt(self, example: Example) -> NDArray[Any]:
        """Return the framed original, from the example alone.

        Raises:
            ValueError: the example lacks a column, or contradicts itself.
        """
        try:
            return self.invert(example)
        except (ArithmeticError, LookupError, TypeError) as error:
            raise ValueError(f"objective '{self.label}': the example contradicts itself ({error!r})") from error
        except ValueError as error:
            if str(error).startswith("objective '"):
                raise
            raise ValueError(f"objective '{self.label}': {error}") from error

    @abstractmethod
    def invert(self, example: Example) -> NDArray[Any]:
        """Return what `uncorrupt` gives back; a wrong example may end in any error of values, types or indices."""

    def original(self, sample: Sample, example: Example) -> NDArray[Any]:
        """Return what `uncorrupt(example)` must give for an example of this sample; the default is the framed row.

        Objectives that take a part of a sample, or one of its sides first, say here which.
        """
        return self.add_special_tokens(sample["ids"])

    def count_unused_tokens(self, samples: SampleBatch, examples: ExampleBatch) -> int:
        """Return the number of tokens of these samples that their examples leave out; 0 by default."""
        return 0

    def tally(self, examples: ExampleBatch) -> dict[str, Any]:
        """Return numbers for the report beside examples and skips; the default has no numbers."""
        return {}

    def id_of(self, special: str) -> int:
        """Return the id of a special token that this objective needs."""
        return self.vocabulary.id_of(special, f"objective '{self.label}' ({self.name})")

    def mode_id(self, mode: str) -> int | None:
        """Return the id of a mode token (`R`, `S`, `X`); None for `none`."""
        modes = self.vocabulary.modes
        if mode == "none":
            return None
        if mode not in modes:
            raise self.refuse_options(
                f"mode {mode} needs its mode token, the tokenizer has: {sorted(modes) or 'none'}; {ADD_SPECIALS}"
            )
        return modes[mode]

    def refuse_options(self, message: str, kind: type[ConfigurationError] = ConfigurationError) -> ConfigurationError:
        """Return an error about this objective's options."""
        return kind(f"objective '{self.label}' ({self.name}): {message}")

    def make_grouping(self, name: str, length: int, separator: str = "none") -> GroupingSpec:
        """Return the spec of a grouping.

        Raises:
            ConfigurationError: rows would be empty, or longer than `longest_row`.
        """
        if length < 1:
            raise self.refuse_options(f"the frame leaves {length} tokens for content; raise max_length")
        if self.longest_row is not None and length > self.longest_row:
            raise self.refuse_options(
                f"rows of {length} content tokens exceed {self.longest_row}: positions are stored in 16 bits"
            )
        return GroupingSpec(name, length, "none" if name == "document" else separator)


def build_objective(entry: str | Mapping[str, Any], vocabulary: Vocabulary, label: str | None = None) -> Objective:
    """Return an objective from its name or `{name: ..., option: ...}`, as configurations write it."""
    objective: Objective = choose("clozeline.pipeline.corrupt.objectives", entry).build(vocabulary, label)
    return objective
