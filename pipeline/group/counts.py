"""The counts of the units of `group`."""

from typing import TypedDict

from clozeline.pipeline.execution.unit_record import Counts


class _RowCounts(TypedDict, total=False):
    """Tokens that were grouped, and the rows they came to. A grouping may count more."""

    tokens_in: int
    tokens_in_samples: int
    tokens_dropped: dict[str, int]
    """tokens in no row, by reason"""
    separators: int
    """separators between documents of a row"""
    target_tokens: int
    """tokens of the other sides of pairs, among those in samples"""
    samples: int
    tokens: int
    """the same as `tokens_in_samples`"""


class SetCounts(_RowCounts, total=False):
    """Counts of one split of a sample set."""

    by_language: dict[str, int]
    """tokens and separators by the language of the row's first document"""


class ReadCounts(TypedDict):
    """Token documents of one split, counted where they are read, before they are copied and grouped."""

    documents: int
    tokens: int
    target_tokens: int


class CopyCounts(TypedDict):
    """Documents for training of one language, as they are and as their copies are; only where a recipe balances."""

    documents: int
    left_out: int
    """documents of which there is no copy"""
    copies: int
    tokens: int
    """tokens of the documents"""
    copied_tokens: int
    """tokens of the copies, without the other sides of pairs"""
    copied_target_tokens: int


class GroupCounts(_RowCounts, Counts, total=False):
    """Counts of units of `group`: sums over all sets, and each set by label and split."""

    documents: dict[str, int]
    """documents by split"""
    read: dict[str, ReadCounts]
    """the same with their tokens"""
    copies: dict[str, CopyCounts]
    """by language; that of a pair is that of both sides, `en-sw`"""
    sets: dict[str, dict[str, SetCounts]]
