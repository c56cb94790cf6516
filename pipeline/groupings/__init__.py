"""Groupings: how token documents become sample rows. One per file, run by the stage `group` and nobody else.

Everything decided here (cuts, reasons of length) is independent of variants and of what corruption draws. Tokens in =
tokens in rows + tokens rejected by reason; separators are counted apart.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ConfigurationError
from pipeline.example import FIXED_COLUMNS, Feature, Ragged, Rows
from pipeline.kernels import offsets_of
from pipeline.registry import choose
from pipeline.seeding import sample_uid
from pipeline.vocabulary import Vocabulary

__all__ = [
    "LONGEST_ROW",
    "Grouped",
    "Grouping",
    "GroupingSpec",
    "Least",
    "build_grouping",
    "kept_by_least",
    "row_offsets",
    "sample_rows",
    "without_empty",
]

Int64: TypeAlias = NDArray[np.int64]

LONGEST_ROW = 65_000
"""Longest row in tokens: positions are stored as uint16, and a frame adds a few tokens."""


@dataclass(frozen=True, slots=True)
class GroupingSpec:
    """Which grouping an objective reads: one sample set for each distinct spec.

    Args:
        name: file in `pipeline/groupings/`.
        length: tokens of a full row, without frame.
        separator: special token behind each document of a packed row: none, sep or eos.
        options: further options of the grouping, in order of name.
    """

    name: str
    length: int
    separator: str = "none"
    options: tuple[tuple[str, Any], ...] = ()

    def entry(self) -> dict[str, Any]:
        """As an entry of the recipe's `group.groupings`."""
        separator = {} if self.separator == "none" else {"separator": self.separator}
        return {"name": self.name, "length": self.length, **separator, **dict(self.options)}

    @staticmethod
    def of(name: str, options: Mapping[str, Any]) -> GroupingSpec:
        """From plain validated options of a grouping."""
        rest = dict(options)
        length, separator = rest.pop("length"), rest.pop("separator", "none")
        return GroupingSpec(name, length, separator, tuple(sorted(rest.items())))

    @property
    def label(self) -> str:
        """Canonical text that names the sample set's folder and enters its uids: `packed-510-sep`."""
        parts = [self.name, str(self.length), self.separator, *(f"{key}={value}" for key, value in self.options)]
        return re.sub(r"[^A-Za-z0-9._=-]", "_", "-".join(parts))


@dataclass(frozen=True, slots=True)
class Least:
    """The smallest row that an objective of the recipe can use."""

    tokens: int = 1
    sentences: int = 1


@dataclass(frozen=True, slots=True)
class Grouped:
    """Sample rows in stream order, and the account of where the tokens went."""

    rows: Rows
    counts: dict[str, Any] = field(default_factory=dict)


class Grouping(ABC):
    """Turns the token documents of a shard, in hash order, into sample rows.

    Documents are `Rows` with the fixed columns `document_uid`, `language`, `copy` and the list columns `token_ids`,
    `sentence_starts`.
    """

    VERSION: ClassVar[int]
    Options: ClassVar[Any]
    columns: ClassVar[tuple[Feature, ...]]

    def __init__(self, options: Any, vocabulary: Vocabulary) -> None:
        self.options = options
        self.vocabulary = vocabulary
        if options.length > LONGEST_ROW:
            raise ConfigurationError(
                f"grouping: length {options.length} exceeds {LONGEST_ROW} tokens (positions are stored in 16 bits)"
            )

    @abstractmethod
    def group(self, documents: Rows, least: Least, label: str) -> Grouped:
        """Rows of these documents; documents without tokens are counted as `empty`."""


def build_grouping(spec: GroupingSpec, vocabulary: Vocabulary) -> Grouping:
    """The grouping of a spec."""
    grouping: Grouping = choose("pipeline.groupings", spec.entry()).build(vocabulary)
    return grouping


def without_empty(documents: Rows) -> Rows:
    """Documents that have at least one token."""
    lengths = documents.columns["token_ids"].lengths
    return documents if lengths.all() else documents.take(np.flatnonzero(lengths))


def sample_rows(
    documents: Rows, first: NDArray[np.intp], offset: Int64, columns: Mapping[str, Ragged], label: str
) -> Rows:
    """Rows with their fixed columns, in the order given.

    Args:
        documents: the documents.
        first: index of the document of each row's first token.
        offset: where that token stands in it.
        columns: the list columns of the rows.
        label: the grouping's label, part of the uid.
    """
    uids = documents.fixed["document_uid"]
    copies = documents.fixed["copy"]
    sample_uids = [
        sample_uid(uids[document].tobytes(), int(copies[document]), place, label)
        for document, place in zip(first.tolist(), offset.tolist(), strict=True)
    ]
    fixed: dict[str, NDArray[Any]] = {
        name: np.zeros(len(first), dtype=dtype) for name, dtype in FIXED_COLUMNS.items() if dtype != "binary16"
    }
    fixed["uid"] = np.array(sample_uids, dtype=np.uint64)
    fixed["document_uid"] = uids[first].reshape(-1, 16)
    fixed["document_offset"] = offset.astype(np.uint32)
    fixed["copy"] = copies[first].astype(np.uint8)
    fixed["language"] = documents.fixed["language"][first].astype(np.uint8)
    return Rows({name: fixed[name] for name in FIXED_COLUMNS}, columns)


def kept_by_least(
    lengths: Int64, content: Int64, sentences: Int64, least: Least
) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Which rows an objective can use, and the content tokens of the others by reason.

    Args:
        lengths: tokens of each row.
        content: the same without separators.
        sentences: sentence starts of each row.
        least: what is asked for.
    """
    short = lengths < least.tokens
    alone = ~short & (sentences < least.sentences)
    reasons = {"too_short": int(content[short].sum()), "one_sentence": int(content[alone].sum())}
    return ~(short | alone), {reason: tokens for reason, tokens in reasons.items() if tokens}


def row_offsets(total: int, length: int) -> Int64:
    """Bounds of rows of `length` tokens, the last one shorter where they do not divide the total."""
    rows = -(-total // length)
    return offsets_of(np.minimum(length, total - np.arange(rows) * length))
