"""Counts that the units of `balance` record."""

from typing import Literal, NotRequired, TypeAlias, TypedDict

from clozeline.pipeline.execution.unit_record import Counts

Kind: TypeAlias = Literal["texts", "pairs"]


class LanguageCounts(TypedDict):
    """Training documents and their tokens; for pairs, tokens of both sides."""

    documents: int
    tokens: int
    by_size: NotRequired[dict[str, int]]  # tokens by class of cluster sizes and buckets, if these have factors


class BalanceCounts(Counts, total=False):
    """Counts of a unit of `balance`; the language of a pair names both sides, such as `en-sw`."""

    selection: dict[str, int]  # documents, with held-out ones, that `select` keeps and leaves out
    skipped: dict[str, int]  # documents without copies, by reason
    texts: dict[str, dict[str, LanguageCounts]]  # by language and source
    pairs: dict[str, dict[str, LanguageCounts]]  # the same for aligned texts
    buckets: dict[str, int]  # documents, with held-out ones, by bucket of their score
    rates: dict[str, dict[str, int]]  # `documents` and those that `passed`, by class of cluster sizes
    clusters: dict[str, int]  # documents `kept` for others, and all `documents` of their clusters
    balanced: dict[str, int]  # expected tokens of the copies, by language
