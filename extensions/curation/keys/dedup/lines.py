"""The key `lines` of `dedup`: lines that many of the remaining documents share."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from clozeline.configuration.config import Positive, config_class
from clozeline.extensions.curation.keys.dedup._repeats_key import RepeatsKey, Within

if TYPE_CHECKING:
    from clozeline.extensions.curation.repeats import TextPieces


@config_class
class LinesConfig(RepeatsKey):
    """Removal of repeated lines, such as menus and notices of a site (CCNet, arXiv 1911.00359)."""

    max_documents: Positive = 1
    """documents, ≥ 1; a line in more of them is removed; lines are compared without case and
    marks"""
    numbers: bool = True
    """true: different numbers make different lines; false: all numbers are equal, as in CCNet"""
    keep: Literal["none", "first"] = "none"
    """occurrence that stays: `none` (CCNet), or the `first`, in the document of smallest uid"""
    min_letters: Annotated[int, Field(ge=1, le=1000)] = 1
    """lines with fewer letters stay, 1 to 1000; lines of digits and marks always stay"""
    within: Within = "all"
    """documents that are counted: `all`, or those of the same `source` of the input"""

    def pieces(self) -> "TextPieces":
        from clozeline.extensions.curation.repeats import LinePieces

        is_first_kept = self.keep == "first"
        return LinePieces(
            self.max_documents, is_first_kept, self.within, 1, self.numbers, self.min_letters
        )
