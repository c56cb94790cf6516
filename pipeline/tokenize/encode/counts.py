"""Counts of the units of the stage `encode`."""

from typing import TypedDict

from clozeline.pipeline.execution.unit_record import Counts


class _SentenceCounts(TypedDict):
    """Sentences split, and those that start at the same token as another one."""

    found: int
    merged: int


class _TextCounts(TypedDict):
    """Text of the encoded documents, or first sides of pairs."""

    words: int
    characters: int


class ShardCounts(TypedDict, total=False):
    """Contents of shards; a set without pairs has no target tokens."""

    documents: int
    tokens: int
    target_tokens: int


class EncodeCounts(Counts, total=False):
    """Counts of units of `encode`."""

    rejected: dict[str, int]
    """rejected documents by reason"""
    characters: int
    tokens: int
    target_tokens: int
    """tokens of the target sides of pairs"""
    target_languages: dict[str, int]
    """target tokens by language"""
    sentences: _SentenceCounts
    code_switch: dict[str, int]
    """`words` of the sentences that were chosen, and those that a translation `replaced`"""
    tokens_by_language: dict[str, int]
    text_by_language: dict[str, _TextCounts]
    """earlier versions did not count it"""
    tokens_by_source: dict[str, int]
    merged: ShardCounts
    """content of the shards"""
    held_out: ShardCounts
    """held-out part of the shards; earlier versions did not count its target tokens"""
