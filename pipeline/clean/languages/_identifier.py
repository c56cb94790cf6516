"""Language identifiers: which language a text is in, and how sure that is."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, ClassVar, Final, Protocol

from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT

UNDECIDED: Final = "und"
"""Code of a text whose language cannot be decided: too short, no letters, or two languages alike."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class LanguageOptions:
    """Options of every identifier."""

    keep: list[str] = field(default_factory=list)
    """language codes (ISO 639-1) of the documents to keep; empty keeps all, also the undecided"""
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.65
    """least score of a kept document, 0 to 1; of no effect where `keep` is empty"""
    chars: Annotated[int, Field(ge=20)] = 2000
    """characters looked at, from the beginning; ≥ 20"""


class LanguageIdentifier(Protocol):
    """The interface of language identifiers."""

    VERSION: ClassVar[int]

    def __init__(self, options: Any) -> None: ...

    def languages(self) -> frozenset[str]:
        """Return the codes that it knows."""
        ...

    def identify(self, text: str) -> tuple[str, float]:
        """Return the ISO 639-1 code (639-3 where 639-1 has none) and a score in [0, 1]; `und` where undecided."""
