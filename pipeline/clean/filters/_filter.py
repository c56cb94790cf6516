"""The interface of filters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

from clozeline.pipeline.text.text_statistics import TextStatistics


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a filter on a document."""

    reason: str = ""  # why it is rejected; empty if it is kept
    detail: str = ""  # the value and its threshold
    text: str | None = None  # the edited text; None without an edit
    removed: Mapping[str, int] = field(default_factory=dict)  # characters removed by the edit, by rule
    edits: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """by rule, the first passage that it changed, before and after"""


KEEP: Final = Verdict()


class Filter(Protocol):
    """A filter: `judge` is pure, so equal texts get equal verdicts."""

    VERSION: ClassVar[int]
    reasons: ClassVar[tuple[str, ...]]

    def __init__(self, options: Any) -> None: ...

    def judge(self, statistics: TextStatistics, language: str) -> Verdict:
        """Return the verdict on a text in stored form."""
