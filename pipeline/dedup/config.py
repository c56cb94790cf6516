"""Options of `dedup`: the types of duplicates."""

from dataclasses import field
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from clozeline.configuration.added_keys import Extensible, add_keys
from clozeline.configuration.config import config_class
from clozeline.configuration.described_keys import Common
from clozeline.pipeline.registries import DEDUP_KEYS

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
@add_keys(DEDUP_KEYS.added_keys())
class DedupConfig(Extensible):
    """Types of duplicates to remove; null disables a type."""

    exact: Annotated[ExactConfig | None, Common()] = field(default_factory=ExactConfig)
    """exact duplicates, removed first"""
    near: Annotated[NearConfig | None, Common()] = field(default_factory=NearConfig)
    """near-duplicates among the remaining documents"""

    def __post_init__(self) -> None:
        if not any((self.exact, self.near, *self.parts())):
            raise ValueError("all types are null: remove the key `dedup` from the recipe instead")
