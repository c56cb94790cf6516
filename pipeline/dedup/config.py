"""Options of `dedup`: the types of duplicates."""

from dataclasses import field
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.configuration.described_keys import Common

Within: TypeAlias = Literal["all", "source"]
"""Documents among which pieces are counted: `all`, or those of the same `source` of the input."""
Key: TypeAlias = Literal["text", "match", "url"]
"""`text` = stored text, `match` = words without case and marks, `url` = normalized URL."""


@config_class
class ExactConfig:
    """Removal of documents with the same key.

    The longest text is kept; of equally long ones, the smallest uid.
    """

    key: Key = "text"
    """key that must be equal: `text` (stored text), `match` (words without case and marks; numbers
    and operators are words) or `url` (without scheme and fragment, except a fragment that starts
    with `#/` or `#!`)"""


@config_class
class NearConfig:
    """Removal of near-duplicates by MinHash LSH.

    The longest text is kept; of equally long ones, the smallest uid.
    """

    ngram: Annotated[int, Field(ge=1, le=64)] = 5
    """words in a shingle, 1 to 64"""
    bands: Annotated[int, Field(ge=1, le=1024)] = 14
    """bands, 1 to 1024: more bands find more pairs"""
    rows: Annotated[int, Field(ge=1, le=1024)] = 8
    """hash functions per band, 1 to 1024: more rows demand more similarity; half of all pairs are
    found at a Jaccard similarity near (1 / bands) ** (1 / rows)"""
    verify: Annotated[float, Field(ge=0, le=1)] = 0.7
    """minimum estimated Jaccard similarity to the kept document, 0 to 1; 0 drops chains A ~ B ~ C
    in favor of one document"""


@config_class
class LinesConfig:
    """Removal of repeated lines, such as menus and notices of a site (CCNet, arXiv 1911.00359)."""

    max_documents: Annotated[int, Field(ge=1)] = 1
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


@config_class
class SpansConfig:
    """Removal of spans of sentences that occur again, except the first (C4, arXiv 1910.10683)."""

    sentences: Annotated[int, Field(ge=1, le=100)] = 3
    """sentences of a span, 1 to 100"""
    numbers: bool = True
    """true: different numbers make different sentences; false: all numbers are equal"""
    within: Within = "all"
    """documents among which spans are compared: `all`, or those of the same `source` of the
    input"""


@config_class
class DedupConfig:
    """Types of duplicates to remove; null disables a type."""

    exact: Annotated[ExactConfig | None, Common()] = field(default_factory=ExactConfig)
    """exact duplicates, removed first"""
    near: Annotated[NearConfig | None, Common()] = field(default_factory=NearConfig)
    """near-duplicates among the remaining documents"""
    lines: LinesConfig | None = None
    """lines that many of the remaining documents share"""
    spans: SpansConfig | None = None
    """spans of sentences that occur again in the remaining text"""

    def __post_init__(self) -> None:
        if not any((self.exact, self.near, self.lines, self.spans)):
            raise ValueError("all types are null: remove the key `dedup` from the recipe instead")
