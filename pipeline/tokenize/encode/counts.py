"""Counts of the units of the stage `encode`."""

from clozeline.pipeline.execution.unit_record import Counts


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
    sentences: dict[str, int]
    """sentences `found`, and those `merged` because they start at the same token as another one"""
    code_switch: dict[str, int]
    """`words` of the sentences that were chosen, and those that a translation `replaced`"""
    tokens_by_language: dict[str, int]
    text_by_language: dict[str, dict[str, int]]
    """`words` and `characters` of the documents, or of the first sides of pairs"""
    tokens_by_source: dict[str, int]
    merged: dict[str, int]
    """content of the shards: `documents`, `tokens`, and `target_tokens` of pairs"""
    held_out: dict[str, int]
    """held-out part of the shards"""
