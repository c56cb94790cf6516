"""Options of `balance`: share of languages, sources and clusters."""

import math
import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Final

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError

SCORE_KEY: Final = "balance.buckets.score"
_EXTRA: Final = "extra."
_COLUMN: Final = re.compile(r"(?:extra\.)?[A-Za-z_]\w*")


@config_class
class ScoreBuckets:
    """Factors on the copies of documents by the bucket of their score (arXiv 2412.02595)."""

    score: str | list[str]
    """column of numbers, as in `select`, such as `quality`; of several columns, the highest number counts"""
    edges: Annotated[list[float], Field(min_length=1, max_length=254)]
    """lowest score of each bucket but the first, ascending"""
    weights: list[Annotated[float, Field(ge=0, le=255)]]
    """factor of each bucket, 0 to 255, one more than `edges`; a document without a score has the factor 1"""

    def __post_init__(self) -> None:
        if not self.columns or any(_COLUMN.fullmatch(name) is None for name in self.columns):
            raise ValueError(f"score {self.score!r}: expected the name of a column or a list of names, e.g. quality")
        if sorted(set(self.edges)) != self.edges or not all(map(math.isfinite, self.edges)):
            raise ValueError(f"edges {self.edges}: expected ascending numbers, each once, such as [0.3, 0.6, 0.9]")
        if len(self.weights) != len(self.edges) + 1:
            raise ValueError(
                f"expected {len(self.edges) + 1} weights for {len(self.edges)} edges (one for each bucket, the one "
                f"below the first edge included), got {len(self.weights)}"
            )
        if not any(self.weights):
            raise ValueError("weights: all are 0, so no document would be left; expected one above 0")

    @property
    def columns(self) -> list[str]:
        return [self.score] if isinstance(self.score, str) else self.score

    def find_bucket(self, row: Mapping[str, Any]) -> int | None:
        """Return the index of the bucket of a document, None where it has no score; a score at an edge is above it.

        Args:
            row: the columns of the document, with its `extra` as a dict.
        """
        scores = []
        for name in self.columns:
            of_input = name.startswith(_EXTRA) or name not in row
            value = row["extra"].get(name.removeprefix(_EXTRA)) if of_input else row[name]
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ConfigurationError(
                    f"{SCORE_KEY}: expected numbers in {name!r}, got {value!r} in document {row['uid'].hex()}; name a "
                    "column of numbers"
                )
            scores.append(value)
        return bisect_right(self.edges, max(scores)) if scores else None


@config_class
class Rehydration:
    """Copies by cluster size, from the share of documents of that size that pass filters (arXiv 2506.20920)."""

    passes: str
    """documents that pass, an expression as in `select`, such as `gopher_quality == ''`"""
    most: Annotated[float, Field(ge=1, le=255)] = 3.0
    """factor of the sizes with the highest share; it falls to 1 for the share of all documents and below"""


@config_class
class BalanceConfig:
    """Share of each language and source in the training data."""

    alpha: Annotated[float, Field(ge=0, le=1)] = 0.3
    """exponent of the language sampling, 0 (equal shares) to 1 (natural proportions): 0.7 XLM and mBERT, 0.3 XLM-R
    and mT5"""
    max_copies: Annotated[int, Field(ge=1, le=255)] = 4
    """maximum copies of a document, 1 to 255; a language that needs more gets a smaller share, with a warning"""
    sources: dict[str, Annotated[float, Field(gt=0, le=255)]] = field(default_factory=dict)
    """factor on the copies of each input source, above 0; default 1"""
    select: str | None = None
    """documents to train on and to hold out, such as `quality > 0.7 and language == 'en'`: columns are `language`,
    `language_score`, `source_group`, `host`, `url`, `n_chars`, `n_words`, `flags`, what filters of `clean` write, and
    `extra.NAME` for fields of the input; default: all documents"""
    duplicates: dict[Annotated[int, Field(ge=1)], Annotated[float, Field(ge=0, le=255)]] = field(default_factory=dict)
    """cluster size → further factor on the copies of the document that dedup kept of the cluster, 0 to 255; other sizes
    take the factor of the next smaller one, and below all it is 1: {2: 1.5, 10: 3} repeats what a crawl holds often"""
    rehydrate: Rehydration | None = None
    """factors of cluster sizes that follow from the documents, instead of `duplicates`"""

    buckets: ScoreBuckets | None = None
    """further factors by the bucket of a score: `{score: quality, edges: [0.3, 0.6, 0.9], weights: [0, 1, 2, 4]}`"""

    def __post_init__(self) -> None:
        if self.rehydrate is not None and self.duplicates:
            raise ValueError("expected `duplicates` (a table) or `rehydrate` (a rule), got both; remove one of them")
