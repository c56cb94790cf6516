"""The interface of language identifiers, and the options they share."""

from dataclasses import field
from typing import Annotated, Any, ClassVar, Final, Protocol

from pydantic import Field

from clozeline.configuration.config import config_class

UNDECIDED: Final = "und"
"""Code of a text whose language is undecided: too short, no letters, or two languages equally likely."""


@config_class
class LanguageOptions:
    """Options of every identifier."""

    keep: list[str] = field(default_factory=list)
    """language codes (ISO 639-1) of the documents to keep; empty keeps all, including undecided ones"""
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.65
    """minimum score of a kept document, 0 to 1; no effect if `keep` is empty"""
    chars: Annotated[int, Field(ge=20)] = 2000
    """leading characters of the text to use; ≥ 20"""


class LanguageIdentifier(Protocol):
    """A language identifier."""

    VERSION: ClassVar[int]

    def __init__(self, options: Any) -> None: ...

    def languages(self) -> frozenset[str]:
        """Return the codes of the known languages."""
        ...

    def identify(self, text: str) -> tuple[str, float]:
        """Return the ISO 639-1 code (639-3 where 639-1 has none) and a score in [0, 1]; `und` where undecided."""
