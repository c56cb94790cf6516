"""Copies of documents: how many of each one training reads, by its language and source and a keyed word of its uid."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from clozeline.arrays import Int64
from clozeline.format_version import refuse_newer
from clozeline.pipeline.rows import Rows
from clozeline.recorded_file import RecordedFile
from clozeline.seeding import order_key

FACTORS_FILE: Final = "factors.json"
FACTORS_FORMAT: Final = 1


@dataclass(frozen=True)
class CopyFactors:
    """Mean numbers of copies, by language and source.

    Args:
        factors: by language and source; the language of a pair is that of both sides, `en-sw`.
        seed: the recipe's seed.
    """

    factors: Mapping[str, Mapping[str, Fraction]]
    seed: int

    @staticmethod
    def read(file: RecordedFile, seed: int) -> CopyFactors:
        """Return the factors that `balance` wrote.

        Raises:
            StorageError: the file is missing.
            IntegrityError: its bytes are not those that the stage wrote.
            NewerFormatError: a newer version wrote it.
        """
        content = json.loads(file.text())
        refuse_newer(file.path, content, FACTORS_FORMAT)
        by_language = content["factors"]
        return CopyFactors(
            {
                language: {source: Fraction(factor) for source, factor in by_source.items()}
                for language, by_source in by_language.items()
            },
            seed,
        )

    def copies(self, uid: bytes, language: str, source: str) -> int:
        """Return the copies of one document: floor(f), and one more with probability f - floor(f).

        A larger factor only adds copies, whatever the other documents are.

        Example: of documents with the factor 5/4, each is there once, and a quarter of them twice.
        """
        whole, rest = divmod(self.factors[language][source], 1)
        return whole + (order_key(uid, "balance", self.seed) * rest.denominator < rest.numerator << 64)

    def of_rows(self, documents: Rows, languages: Sequence[str], sources: Sequence[str]) -> Int64:
        """Return the copies of each token document, shape [documents].

        Args:
            documents: rows of a token set.
            languages: names of their language codes.
            sources: names of their source codes.
        """
        uids, codes = documents.fixed["document_uid"], documents.fixed["source_group"].tolist()
        facts = zip(uids, languages_of(documents, languages), codes, strict=True)
        counts = (self.copies(uid.tobytes(), language, sources[source]) for uid, language, source in facts)
        return np.fromiter(counts, np.int64, len(documents))


def languages_of(documents: Rows, languages: Sequence[str]) -> Iterator[str]:
    """Yield the language of each token document; for a pair the languages of both sides, `en-sw`."""
    own = documents.fixed["language"].tolist()
    others = documents.columns.get("target_language")
    for row, code in enumerate(own):
        other = [] if others is None else others[row].tolist()
        yield "-".join(languages[one] for one in (code, *other))
