"""Counts that the units of `dedup` record."""

from collections.abc import Mapping
from typing import TypedDict

from clozeline.pipeline.execution.unit_record import Counts


class _KindCounts(TypedDict, total=False):
    """Counts of exact or near deduplication."""

    keys: int  # band keys of all signatures
    compared_keys: int  # the same, counted where they are compared
    candidates: int  # band keys that two or more documents share, counted per document
    members: int  # documents that share a band key with another document
    compared: int  # documents compared: with exact dedup all that have a key, with near dedup the members
    clusters: int
    dropped: int


class PieceCounts(TypedDict, total=False):
    """Counts of repeated pieces of texts."""

    documents: int  # documents that earlier types of duplicates leave
    pairs: int  # those of them with a translation, which are not looked at
    hashed: int  # pieces
    compared: int  # the same, counted where they are compared
    repeated: int  # pieces that repeat
    dropped: int  # those of them that are removed


class DedupCounts(Counts, total=False):
    """Counts of a unit of `dedup`."""

    hashed: int  # documents with a key for exact dedup
    without_key: int  # documents without one, such as those without a URL
    signatures: int  # documents with a signature
    other: dict[str, int]  # documents of another output that were hashed, or have a signature
    sent: dict[str, int]  # rows written for a later pass, by exchange
    taken: dict[str, dict[str, int]]  # the same rows where they are read, by exchange and by pass
    exact: _KindCounts
    near: _KindCounts
    pieces: dict[str, PieceCounts]  # by type: lines, spans
    edited: int  # documents without some pieces
    edits: dict[str, int]  # characters removed from them, by type
    rejected: dict[str, int]  # dropped documents, by type of duplicate
    characters_in: int
    characters_out: int
    characters_removed: dict[str, int]


def read_by(name: str, rows: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return the rows that a pass read, by exchange, in the form of `DedupCounts.taken`."""
    return {exchange: {name: number} for exchange, number in rows.items()}
