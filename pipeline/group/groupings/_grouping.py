"""The base of groupings, which turn token documents into sample rows, and their specs."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.arrays import Int64
from clozeline.columns import Feature, Role
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.kernels.ragged import flatten_positions, starts_in_rows
from clozeline.pipeline.kernels.rates import MILLION
from clozeline.pipeline.registries import GROUPINGS
from clozeline.pipeline.rows import FIXED_COLUMNS, WORD_STARTS, Ragged, RowBatch
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import (
    MIXTURE,
    below,
    hash64,
    kernel_base,
    kernel_keys,
    random_bits,
    random_bits_of,
    sample_uid,
)

if TYPE_CHECKING:  # options are read without Arrow, which files need
    from clozeline.pipeline.shards.manifest import GroupingRecord

Part: TypeAlias = tuple[int, int]
"""tokens in a full row of a part of a mixture, and the share of the part in parts per million"""
MOST_PARTS: Final = 256
"""most parts of a mixture: they are stored in 8 bits"""
# Most tokens in a row whose positions are stored as uint16, with one special token in front.
_MOST_UINT16_TOKENS: Final = 65_535
# Most characters of an option in a label; the hash of a longer option replaces it.
_MOST_LABEL_CHARACTERS: Final = 64


@dataclass(frozen=True, slots=True)
class GroupingSpec:
    """The grouping that an objective reads: one sample set for each distinct spec.

    Args:
        name: file in `pipeline/group/groupings/`.
        length: tokens in a full row, without special tokens around it.
        separator: special token after each document of a packed row: none, sep or eos.
        options: further options of the grouping, in order of their names.
    """

    name: str
    length: int
    separator: str = "none"
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def algorithm(self) -> type[Grouping]:
        """The class of the grouping."""
        return GROUPINGS.load_class(self.name)

    @property
    def algorithms(self) -> Sequence[type]:
        """The same, in a list."""
        return [self.algorithm]

    def entry(self) -> dict[str, Any]:
        """Return the spec as a name with options, as in a configuration."""
        separator = {} if self.separator == "none" else {"separator": self.separator}
        return {"name": self.name, "length": self.length, **separator, **dict(self.options)}

    @staticmethod
    def of(name: str, options: Mapping[str, Any]) -> GroupingSpec:
        """Return the spec of a grouping with validated options."""
        hashable = {key: _to_tuples(value) for key, value in options.items()}
        length = hashable.pop("length")
        separator = hashable.pop("separator", "none")
        further = sorted((key, value) for key, value in hashable.items() if value != ())
        return GroupingSpec(name, length, separator, tuple(further))

    @property
    def label(self) -> str:
        """Return the name of the sample set, a part of its sample uids: `packed-510-sep`."""
        options = (f"{key}={_canonical(value)}" for key, value in self.options)
        text = "-".join([self.name, str(self.length), self.separator, *options])
        return re.sub(r"[^A-Za-z0-9._=-]", "_", text)


def _to_tuples(value: object) -> Any:
    return tuple(_to_tuples(item) for item in value) if isinstance(value, (list, tuple)) else value


def _canonical(value: object) -> str:
    if not isinstance(value, tuple):
        return str(value)
    items = ["x".join(map(str, item)) if isinstance(item, tuple) else str(item) for item in value]
    text = "_".join(items)
    return text if len(text) <= _MOST_LABEL_CHARACTERS else f"{len(value)}.{hash64(text):016x}"


@dataclass(frozen=True, slots=True)
class MinimumRow:
    """The smallest row that an objective of the recipe can use."""

    tokens: int = 1
    sentences: int = 1

    def filter(
        self, lengths: Int64, content: Int64, sentences: Int64
    ) -> tuple[NDArray[np.bool_], dict[str, int]]:
        """Return which rows an objective can use, and the content tokens of other rows by reason.

        For each row, `lengths` are its tokens, `content` its tokens without separators, and
        `sentences` its sentence starts.
        """
        short = lengths < self.tokens
        alone = ~short & (sentences < self.sentences)
        reasons = {
            "too_short": int(content[short].sum()),
            "one_sentence": int(content[alone].sum()),
        }
        return ~(short | alone), {reason: tokens for reason, tokens in reasons.items() if tokens}


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """Sample rows in stream order, and the counts of tokens in rows and dropped tokens."""

    rows: RowBatch
    counts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """Properties of a sample set that a grouping needs in addition to the documents."""

    label: str
    """label of the grouping; sample uids contain it, and it is a key of all random draws"""
    seed: int = 1
    source_groups: tuple[str, ...] = ()
    """names of the codes in the column `source_group` of the documents"""


@config_class
class PartOptions:
    """Options that every grouping has."""

    parts: Annotated[
        tuple[Part, ...],
        Field(
            description="Length in tokens, and share in parts per million, of each part of a "
            "mixture; none: a single part."
        ),
    ] = ()


class PartSampler:
    """Draws the part of a mixture for each row, keyed by where the row starts.

    The draw does not depend on the variant or the label of an objective. Without parts, every row
    belongs to part 0 and has the given length.
    """

    def __init__(self, parts: Sequence[Part], length: int, label: str, seed: int) -> None:
        self._lengths = [length for length, _ in parts] or [length]
        self._bounds = list(accumulate(share for _, share in parts)) or [MILLION]
        self._label = label
        self._seed = seed
        self._base = kernel_base(seed, label, 0)

    def draw_rows(self, uids: NDArray[np.uint64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the part and the full length of each row, shape [rows]."""
        lengths = np.array(self._lengths, dtype=np.int64)
        if len(lengths) == 1:
            return np.zeros(len(uids), np.uint8), np.repeat(lengths, len(uids))
        keys = kernel_keys(self._seed, self._label, uids, np.zeros(len(uids), np.uint16))
        drawn = below(random_bits(keys, MIXTURE, 1)[:, 0] >> np.uint64(32), MILLION)
        parts: NDArray[Any] = np.searchsorted(np.array(self._bounds), drawn, side="right")
        return parts.astype(np.uint8), lengths[parts]

    def draw_row(self, uid: int) -> tuple[int, int]:
        """Return the part and the full length of one row."""
        drawn = ((random_bits_of(self._base, uid, MIXTURE, 0) >> 32) * MILLION) >> 32
        part = bisect_right(self._bounds, drawn)
        return part, self._lengths[part]


class Grouping(ABC):
    """Turns the token documents of a shard, in hash order, into sample rows.

    Documents are a `RowBatch` with the fixed columns `document_uid`, `language`, `copy` and the
    list columns `token_ids`, `sentence_starts`.
    """

    VERSION: ClassVar[int] = 1
    """raised when the same input gives other bytes"""
    keeps_words: ClassVar[bool] = True
    """whether rows keep the word starts of documents; false if no objective reads words of such
    rows"""
    least_sentences: ClassVar[int] = 1
    """sentences that a row has at least"""
    holds_documents: ClassVar[bool] = False
    """whether a row may hold several documents; the column `document_starts` tells where they
    start"""
    has_separator: ClassVar[bool] = False
    """whether the option `separator` puts a special token after each document"""
    cuts_at_length: ClassVar[bool] = False
    """whether rows follow from lengths alone: all documents of a shard in their order, cut every
    `length` tokens"""
    second_text: ClassVar[Literal["partner", "target"] | None] = None
    """second text of a row: from another document, or the other side of a pair; None: rows have one
    text"""
    Options: ClassVar[Any]
    columns: tuple[Feature, ...]

    def __init__(self, options: Any, vocabulary: Vocabulary) -> None:
        self.options = options
        self.vocabulary = vocabulary
        self.separators = 0
        """special tokens after each document"""
        parts: tuple[Part, ...] = options.parts
        lengths = [length for length, _ in parts]
        self.lengths = lengths or [options.length]
        """tokens of a full row, of each part"""
        shares = [share for _, share in parts]
        if parts and (sum(shares) != MILLION or len(parts) > MOST_PARTS):
            raise ConfigurationError(
                f"grouping: {len(parts)} parts with the shares {shares}: expected at most "
                f"{MOST_PARTS} parts, whose shares sum to {MILLION}"
            )

        if parts and (min(lengths) < 1 or max(lengths) != options.length):
            raise ConfigurationError(
                f"grouping: parts of {lengths} tokens: expected 1 or more, and the longest part "
                f"equal to `length`, {options.length}"
            )

    @abstractmethod
    def group(self, documents: RowBatch, minimum: MinimumRow, context: Context) -> GroupedRows:
        """Return the rows of these documents; documents without tokens are counted as `empty`."""

    def columns_of(self, *, words: bool) -> tuple[Feature, ...]:
        """Return the columns of rows; `words`: documents have word starts from segmenters."""
        if not (words and self.keeps_words):
            return self.columns
        return (*self.columns, self.starts_feature(WORD_STARTS.name, WORD_STARTS.description))

    def word_starts(self, documents: RowBatch, begins: Int64, offsets: Int64) -> dict[str, Ragged]:
        """Return the column of word starts of rows, if the documents have one.

        A word also starts at the start of a row. `begins` are the starts of the documents in the
        stream that rows are cut from, `offsets` the starts of the rows.
        """
        words = documents.columns.get(WORD_STARTS.name)
        if words is None:
            return {}
        flat_positions = flatten_positions(words, begins)
        return {
            WORD_STARTS.name: starts_in_rows(
                flat_positions, offsets, starts_dtype(self.options.length)
            )
        }

    def part_sampler(self, context: Context) -> PartSampler:
        """Return the sampler that draws the part, and thereby the length, of each row."""
        return PartSampler(self.options.parts, self.options.length, context.label, context.seed)

    def starts_feature(self, name: str, description: str) -> Feature:
        """Return a feature that holds starts in the rows."""
        return Feature(name, starts_dtype(self.options.length), Role("start", "ids"), description)

    def windows(
        self, documents: RowBatch, context: Context, ends: Callable[[Starts, Int64], Int64]
    ) -> tuple[Starts, NDArray[np.uint8]]:
        """Return the starts of all windows, and their parts.

        `ends` maps the starts of windows and their full lengths to their ends, as offsets in their
        documents.
        """
        sizes = documents.columns["token_ids"].lengths
        sampler = self.part_sampler(context)
        first = np.arange(len(documents))
        offset = np.zeros(len(documents), np.int64)
        windows: list[tuple[object, ...]] = []

        # each round cuts one window of every document that is not finished
        while len(first) or not windows:
            starts = Starts.at(documents, first, offset, context.label)
            parts, lengths = sampler.draw_rows(starts.uids)
            windows.append((first, offset, starts.uids, parts))
            offset = ends(starts, lengths)
            unfinished = offset < sizes[first]
            first = first[unfinished]
            offset = offset[unfinished]

        # order the windows by document and offset
        first, offset, uids, parts = (
            np.concatenate(column) for column in zip(*windows, strict=True)
        )
        order = np.lexsort((offset, first))
        return Starts(first, offset, uids).take(order), parts[order]

    @staticmethod
    def drop_empty(documents: RowBatch) -> RowBatch:
        """Return the documents that have at least one token."""
        lengths = documents.columns["token_ids"].lengths
        return documents if lengths.all() else documents.take(np.flatnonzero(lengths))

    @staticmethod
    def count_tokens(
        documents: RowBatch, in_samples: int, dropped: Mapping[str, int], separators: int = 0
    ) -> dict[str, Any]:
        """Count the tokens in rows and outside; documents without tokens count as `empty`."""
        lengths = documents.columns["token_ids"].lengths
        return {
            "tokens_in_samples": in_samples,
            "tokens_dropped": dropped,
            "separators": separators,
            "documents_dropped": {"empty": int((lengths == 0).sum())},
        }


def starts_dtype(length: int) -> Literal["uint16", "uint32"]:
    """Return the type of positions in rows of up to `length` tokens."""
    return "uint16" if length <= _MOST_UINT16_TOKENS else "uint32"


def recorded_grouping(record: GroupingRecord) -> GroupingSpec:
    """Return the spec of the grouping that a manifest records."""
    entry = record.entry()
    return GroupingSpec.of(entry.pop("name"), entry)


def build_grouping(spec: GroupingSpec, vocabulary: Vocabulary) -> Grouping:
    """Return the grouping of a spec."""
    grouping: Grouping = GROUPINGS.resolve(spec.entry()).build(vocabulary)
    return grouping


@dataclass(frozen=True, slots=True)
class Starts:
    """Starts of rows: document of the first token, its offset in the document, and sample uid."""

    first: NDArray[np.intp]
    offset: Int64
    uids: NDArray[np.uint64]

    @staticmethod
    def at(documents: RowBatch, first: NDArray[np.intp], offset: Int64, label: str) -> Starts:
        """Return starts with their sample uids; the label of the grouping is a part of them."""
        uids = documents.fixed["document_uid"]
        copies = documents.fixed["copy"]
        sample_uids = [
            sample_uid(uids[document].tobytes(), int(copies[document]), position, label)
            for document, position in zip(first.tolist(), offset.tolist(), strict=True)
        ]
        return Starts(first, offset, np.array(sample_uids, dtype=np.uint64))

    def take(self, chosen: NDArray[Any]) -> Starts:
        """Return some of the starts, by index or mask."""
        return Starts(self.first[chosen], self.offset[chosen], self.uids[chosen])

    def sample_rows(
        self, documents: RowBatch, columns: Mapping[str, Ragged], parts: NDArray[np.uint8]
    ) -> RowBatch:
        """Return rows with their fixed columns, in this order."""
        copied = {
            name: documents.fixed[name][self.first].astype(np.uint8)
            for name in ("copy", "language")
        }
        fixed: dict[str, NDArray[Any]] = {
            **copied,
            "uid": self.uids,
            "document_uid": documents.fixed["document_uid"][self.first].reshape(-1, 16),
            "document_offset": self.offset.astype(np.uint32),
            "part": parts,
        }

        # columns that samples do not use are zero
        absent = {
            name: np.zeros(len(parts), FIXED_COLUMNS[name])
            for name in FIXED_COLUMNS.keys() - fixed.keys()
        }
        return RowBatch({name: (fixed | absent)[name] for name in FIXED_COLUMNS}, columns)
