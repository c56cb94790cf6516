"""The counts of the units of `dedup`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from clozeline.pipeline.execution.unit_record import Counts


class _KindCounts(TypedDict, total=False):
    """Counts of the passes that find duplicates of one kind."""

    keys: int
    """band keys of all signatures"""
    compared_keys: int
    """the same, where they are compared"""
    candidates: int
    """band keys that two or more documents share, over all these documents"""
    members: int
    """documents that share a band key with another one"""
    compared: int
    """documents whose keys are compared: of exact ones all that have a key, of near ones the members"""
    clusters: int
    dropped: int


class DedupCounts(Counts, total=False):
    """Counts of units of `dedup`."""

    hashed: int
    """documents that have a key of exact deduplication"""
    without_key: int
    """documents that have none, such as those without a URL"""
    signatures: int
    """documents that have a signature"""
    sent: dict[str, int]
    """rows left for a later pass, by exchange; earlier versions did not count them"""
    taken: dict[str, dict[str, int]]
    """the same rows where they were read, by exchange and by pass"""
    exact: _KindCounts
    near: _KindCounts
    rejected: dict[str, int]
    """documents left out, by kind of duplicate"""
    characters_in: int
    characters_out: int
    characters_removed: dict[str, int]


def read_by(name: str, rows: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return rows that a pass read, by exchange, as `taken` counts them."""
    return {exchange: {name: number} for exchange, number in rows.items()}
