"""The counts of the units of `encode`."""

from __future__ import annotations

from typing import TypedDict

from clozeline.pipeline.execution.unit_record import Counts


class _SentenceCounts(TypedDict):
    """Sentences found, and those that begin at the token where another one begins."""

    found: int
    merged: int


class ShardCounts(TypedDict, total=False):
    """Amounts in shards. A set without pairs has no target tokens."""

    documents: int
    tokens: int
    target_tokens: int


class EncodeCounts(Counts, total=False):
    """Counts of units of `encode`."""

    rejected: dict[str, int]
    """documents left out, by reason"""
    characters: int
    tokens: int
    target_tokens: int
    """tokens of the other sides of pairs"""
    target_languages: dict[str, int]
    """the same by language"""
    sentences: _SentenceCounts
    tokens_by_language: dict[str, int]
    tokens_by_source: dict[str, int]
    merged: ShardCounts
    """content of the shards"""
    held_out: ShardCounts
    """the part of it that is held out; earlier versions did not count its target tokens"""
