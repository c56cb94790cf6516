"""Filters: one verdict a document, from measures that all filters share. Reasons are names that reports rely on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

from clozeline.pipeline.text.text_statistics import TextStatistics


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a filter on a document.

    Args:
        reason: why it is rejected; empty where it is kept.
        detail: the measure and its threshold.
        text: the edited text; None where the filter does not edit.
        removed: characters removed by an edit, by rule.
        edits: the first passage that a rule changed and what is left of it, by rule, where a passage shows it.
    """

    reason: str = ""
    detail: str = ""
    text: str | None = None
    removed: Mapping[str, int] = field(default_factory=dict)
    edits: Mapping[str, tuple[str, str]] = field(default_factory=dict)


KEEP: Final = Verdict()


class Filter(Protocol):
    """The interface of filters."""

    VERSION: ClassVar[int]
    reasons: ClassVar[tuple[str, ...]]

    def __init__(self, options: Any) -> None: ...

    def judge(self, statistics: TextStatistics, language: str) -> Verdict:
        """Return the verdict on a text in stored form. Pure: the same text and language give the same verdict."""
