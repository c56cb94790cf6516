"""Counts that the units of `balance` record."""

from typing import Literal, TypeAlias, TypedDict

from clozeline.pipeline.execution.unit_record import Counts

Kind: TypeAlias = Literal["texts", "pairs"]


class LanguageCounts(TypedDict):
    """Training documents and their tokens; for pairs, tokens of both sides."""

    documents: int
    tokens: int


class BalanceCounts(Counts, total=False):
    """Counts of a unit of `balance`; the language of a pair names both sides, such as `en-sw`."""

    skipped: dict[str, int]  # documents without copies, by reason
    texts: dict[str, dict[str, LanguageCounts]]  # by language and source
    pairs: dict[str, dict[str, LanguageCounts]]  # the same for aligned texts
    balanced: dict[str, int]  # expected tokens of the copies, by language
