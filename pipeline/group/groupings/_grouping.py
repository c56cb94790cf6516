"""The base of groupings: their specs, and what they share to turn token documents into sample rows."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as options_class

from clozeline.arrays import Int64
from clozeline.configuration.config import STRICT
from clozeline.errors import ConfigurationError
from clozeline.pipeline.group.groupings._parts import MOST_PARTS, Part, PartDraws
from clozeline.pipeline.kernels.rates import MILLION
from clozeline.pipeline.kernels.sampling import offsets_of
from clozeline.pipeline.rows import FIXED_COLUMNS, Feature, Ragged, Rows
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.registry import choose
from clozeline.seeding import hash64, sample_uid

# Tokens of the longest row whose positions are stored as uint16, with a token in front.
_SHORT: Final = 65_535
# Longest text of an option in a label; what is longer is named by its hash.
_LONGEST_VALUE: Final = 64


@dataclass(frozen=True, slots=True)
class GroupingSpec:
    """The grouping that an objective reads: one sample set for each distinct spec.

    Args:
        name: file in `pipeline/group/groupings/`.
        length: tokens of a full row, without frame.
        separator: special token after each document of a packed row: none, sep or eos.
        options: further options of the grouping, in order of name.
    """

    name: str
    length: int
    separator: str = "none"
    options: tuple[tuple[str, Any], ...] = ()

    def entry(self) -> dict[str, Any]:
        """Return the spec as an entry of the recipe's `group.groupings`."""
        separator = {} if self.separator == "none" else {"separator": self.separator}
        return {"name": self.name, "length": self.length, **separator, **dict(self.options)}

    @staticmethod
    def of(name: str, options: Mapping[str, Any]) -> GroupingSpec:
        """Return the spec of plain validated options of a grouping."""
        rest = {key: _hashable(value) for key, value in options.items() if value != ()}
        length, separator = rest.pop("length"), rest.pop("separator", "none")
        return GroupingSpec(name, length, separator, tuple(sorted((k, v) for k, v in rest.items() if v != ())))

    @property
    def label(self) -> str:
        """Return the canonical text that names the sample set's folder and enters its uids: `packed-510-sep`."""
        options = (f"{key}={_canonical(value)}" for key, value in self.options)
        return re.sub(r"[^A-Za-z0-9._=-]", "_", "-".join([self.name, str(self.length), self.separator, *options]))


def _hashable(value: Any) -> Any:
    return tuple(_hashable(item) for item in value) if isinstance(value, (list, tuple)) else value


def _canonical(value: Any) -> str:
    if not isinstance(value, tuple):
        return str(value)
    text = "_".join("x".join(map(str, item)) if isinstance(item, tuple) else str(item) for item in value)
    return text if len(text) <= _LONGEST_VALUE else f"{len(value)}.{hash64(text):016x}"


@dataclass(frozen=True, slots=True)
class MinimumRow:
    """The smallest row that an objective of the recipe can use."""

    tokens: int = 1
    sentences: int = 1


@dataclass(frozen=True, slots=True)
class Grouped:
    """Sample rows in stream order, and the account of where the tokens went."""

    rows: Rows
    counts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """Properties that a grouping knows in addition to the documents.

    Args:
        label: the grouping's label, part of the sample uids and key of its draws.
        seed: the recipe's seed.
        source_groups: names of the codes in the documents' column `source_group`.
    """

    label: str
    seed: int = 1
    source_groups: tuple[str, ...] = ()


@options_class(frozen=True, kw_only=True, config=STRICT)
class PartOptions:
    """Options that every grouping has."""

    parts: Annotated[
        tuple[Part, ...],
        Field(description="Length in tokens and share in parts per million of each part of a mixture; none: one part."),
    ] = ()


class Grouping(ABC):
    """Turns the token documents of a shard, in hash order, into sample rows.

    Documents are `Rows` with the fixed columns `document_uid`, `language`, `copy` and the list columns `token_ids`,
    `sentence_starts`.
    """

    VERSION: ClassVar[int]
    Options: ClassVar[Any]
    columns: tuple[Feature, ...]

    def __init__(self, options: Any, vocabulary: Vocabulary) -> None:
        self.options = options
        self.vocabulary = vocabulary
        parts: tuple[Part, ...] = options.parts
        if parts and (sum(share for _, share in parts) != MILLION or len(parts) > MOST_PARTS):
            raise ConfigurationError(
                f"grouping: {len(parts)} parts with the shares {[share for _, share in parts]}: expected at most "
                f"{MOST_PARTS}, whose shares sum to {MILLION}"
            )
        if parts and (min(parts)[0] < 1 or max(parts)[0] != options.length):
            raise ConfigurationError(
                f"grouping: parts of {[length for length, _ in parts]} tokens: expected 1 or more, the longest as long "
                f"as `length`, {options.length}"
            )

    @abstractmethod
    def group(self, documents: Rows, minimum: MinimumRow, context: Context) -> Grouped:
        """Return rows of these documents; documents without tokens are counted as `empty`."""

    def part_draws(self, context: Context) -> PartDraws:
        """Return draws of the part, and so of the length, of each row."""
        return PartDraws(self.options.parts, self.options.length, context.label, context.seed)


def starts_feature(name: str, length: int, description: str) -> Feature:
    """Return the feature of positions in rows of up to `length` tokens: uint16, or uint32 if longer."""
    return Feature(name, "uint16" if length <= _SHORT else "uint32", 1, description)


def build_grouping(spec: GroupingSpec, vocabulary: Vocabulary) -> Grouping:
    """Return the grouping of a spec."""
    grouping: Grouping = choose("clozeline.pipeline.group.groupings", spec.entry()).build(vocabulary)
    return grouping


def without_empty(documents: Rows) -> Rows:
    """Return documents that have at least one token."""
    lengths = documents.columns["token_ids"].lengths
    return documents if lengths.all() else documents.take(np.flatnonzero(lengths))


@dataclass(frozen=True, slots=True)
class Starts:
    """The starts of rows: index of the document of the first token, its offset there, and the sample uid."""

    first: NDArray[np.intp]
    offset: Int64
    uids: NDArray[np.uint64]

    def take(self, chosen: NDArray[Any]) -> Starts:
        """Return some of the starts, by index or mask."""
        return Starts(self.first[chosen], self.offset[chosen], self.uids[chosen])


def starts_at(documents: Rows, first: NDArray[np.intp], offset: Int64, label: str) -> Starts:
    """Return starts with their uids.

    Args:
        documents: the documents.
        first: index of the document of each row's first token.
        offset: index of that token in the document.
        label: the grouping's label, part of the uid.
    """
    uids = documents.fixed["document_uid"]
    copies = documents.fixed["copy"]
    sample_uids = [
        sample_uid(uids[document].tobytes(), int(copies[document]), position, label)
        for document, position in zip(first.tolist(), offset.tolist(), strict=True)
    ]
    return Starts(first, offset, np.array(sample_uids, dtype=np.uint64))


def sample_rows(
    documents: Rows, starts: Starts, columns: Mapping[str, Ragged], parts: NDArray[np.uint8] | None = None
) -> Rows:
    """Return rows with their fixed columns, in the order given; without `parts` all are of part 0."""
    first = starts.first
    fixed: dict[str, NDArray[Any]] = {
        name: np.zeros(len(first), dtype=dtype) for name, dtype in FIXED_COLUMNS.items() if dtype != "binary16"
    }
    fixed["uid"] = starts.uids
    fixed["document_uid"] = documents.fixed["document_uid"][first].reshape(-1, 16)
    fixed["document_offset"] = starts.offset.astype(np.uint32)
    fixed["copy"] = documents.fixed["copy"][first].astype(np.uint8)
    fixed["language"] = documents.fixed["language"][first].astype(np.uint8)
    if parts is not None:
        fixed["part"] = parts
    return Rows({name: fixed[name] for name in FIXED_COLUMNS}, columns)


def filter_by_minimum(
    lengths: Int64, content: Int64, sentences: Int64, minimum: MinimumRow
) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Return which rows an objective can use, and the content tokens of the others by reason.

    Args:
        lengths: tokens of each row.
        content: the same without separators.
        sentences: sentence starts of each row.
        minimum: the smallest row that is kept.
    """
    short = lengths < minimum.tokens
    alone = ~short & (sentences < minimum.sentences)
    reasons = {"too_short": int(content[short].sum()), "one_sentence": int(content[alone].sum())}
    return ~(short | alone), {reason: tokens for reason, tokens in reasons.items() if tokens}


def row_offsets(total: int, length: int) -> Int64:
    """Return bounds of rows of `length` tokens, the last one shorter where they do not divide the total."""
    rows = -(-total // length)
    return offsets_of(np.minimum(length, total - np.arange(rows) * length))
