"""The key `spans` of `dedup`: spans of sentences that occur again in the remaining text."""

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.extensions.curation.keys.dedup._repeats_key import RepeatsKey, Within

if TYPE_CHECKING:
    from clozeline.extensions.curation.repeats import TextPieces


@config_class
class SpansConfig(RepeatsKey):
    """Removal of spans of sentences that occur again, except the first (C4, arXiv 1910.10683)."""

    sentences: Annotated[int, Field(ge=1, le=100)] = 3
    """sentences of a span, 1 to 100"""
    numbers: bool = True
    """true: different numbers make different sentences; false: all numbers are equal"""
    within: Within = "all"
    """documents among which spans are compared: `all`, or those of the same `source` of the
    input"""

    def pieces(self) -> "TextPieces":
        from clozeline.extensions.curation.repeats import SpanPieces

        return SpanPieces(None, True, self.within, self.sentences, self.numbers)
