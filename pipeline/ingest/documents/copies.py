"""Decide how many copies of each document training reads.

The number follows from the language and the source of the document, and from a hash of its uid.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from clozeline.arrays import Int64
from clozeline.checksummed_json import refuse_newer
from clozeline.pipeline.rows import RowBatch
from clozeline.recorded_file import RecordedFile
from clozeline.seeding import order_key

FACTORS_FILE: Final = "factors.json"
FACTORS_FORMAT: Final = 1


@dataclass(frozen=True)
class CopyFactors:
    """Mean copies per document, by language and source.

    A pair of aligned texts has a language such as `en-sw`.
    """

    factors: Mapping[str, Mapping[str, Fraction]]
    seed: int

    @staticmethod
    def read(file: RecordedFile, seed: int) -> "CopyFactors":
        """Return the factors that `balance` wrote."""
        content = json.loads(file.text())
        refuse_newer(file.path, content, FACTORS_FORMAT)
        factors = {
            language: {source: Fraction(factor) for source, factor in by_source.items()}
            for language, by_source in content["factors"].items()
        }
        return CopyFactors(factors, seed)

    def copies(self, uid: bytes, language: str, source: str) -> int:
        """Return the number of copies: floor(f), and one more with probability f - floor(f).

        A larger factor only adds copies; other documents do not matter.

        Example: at factor 5/4, every document occurs once, and a quarter of them twice.
        """
        least, rest = divmod(self.factors[language][source], 1)
        return least + (
            order_key(uid, "balance", self.seed) * rest.denominator < rest.numerator << 64
        )

    def count_copies(
        self, documents: RowBatch, languages: Sequence[str], sources: Sequence[str]
    ) -> Int64:
        """Return the number of copies of each token document, shape [documents].

        `languages` and `sources` are the names of the codes in the rows.
        """
        uids = documents.fixed["document_uid"]
        codes = documents.fixed["source_group"].tolist()
        rows = zip(uids, iterate_languages(documents, languages), codes, strict=True)
        counts = (
            self.copies(uid.tobytes(), language, sources[source]) for uid, language, source in rows
        )
        return np.fromiter(counts, np.int64, len(documents))


def iterate_languages(documents: RowBatch, languages: Sequence[str]) -> Iterator[str]:
    """Yield the language of each token document; of a pair both languages, such as `en-sw`."""
    targets = documents.columns.get("target_language")
    for row, code in enumerate(documents.fixed["language"].tolist()):
        target = [] if targets is None else targets[row].tolist()
        yield "-".join(languages[side] for side in (code, *target))
