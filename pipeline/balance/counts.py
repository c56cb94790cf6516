"""The counts of the units of `balance`."""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict

from clozeline.pipeline.execution.unit_record import Counts

Kind: TypeAlias = Literal["texts", "pairs"]


class LanguageCounts(TypedDict):
    """Documents that training may read, and their tokens, of both sides where they are pairs."""

    documents: int
    tokens: int


class BalanceCounts(Counts, total=False):
    """Counts of units of `balance`; the language of a pair is that of both sides, `en-sw`."""

    skipped: dict[str, int]
    """documents that get no copies, by reason"""
    texts: dict[str, dict[str, LanguageCounts]]
    """by language and source"""
    pairs: dict[str, dict[str, LanguageCounts]]
    """the same of aligned texts"""
    balanced: dict[str, int]
    """tokens that the copies have on average, by language"""
