"""Decide how many copies of each document training reads.

The number follows from the language and the source of the document, and from a hash of its uid.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np

from clozeline.arrays import Int64
from clozeline.checksummed_json import refuse_newer
from clozeline.pipeline.execution.contributions import DocumentCopies, ParentFile
from clozeline.pipeline.execution.unit_inputs import SomeShards, UnitInputs
from clozeline.pipeline.rows import RowBatch
from clozeline.recorded_file import RecordedFile
from clozeline.seeding import order_key

FACTORS: Final = ParentFile("balance", "main", "000000", "factors.json", "factors")
FACTORS_FORMAT: Final = 1
Factors: TypeAlias = Mapping[str, Mapping[str, Fraction]]
"""Mean copies per document, by language and source; a pair of aligned texts has a language such as
`en-sw`."""


def read_factors(file: RecordedFile) -> Factors:
    """Return the factors that `balance` wrote."""
    content = json.loads(file.text())
    refuse_newer(file.path, content, FACTORS_FORMAT)
    return {
        language: {source: Fraction(factor) for source, factor in by_source.items()}
        for language, by_source in content["factors"].items()
    }


@dataclass(frozen=True)
class BalancedCopies(DocumentCopies):
    """Copies by the factors that `balance` wrote."""

    seed: int

    def draw(self, uid: bytes, factor: Fraction) -> int:
        """Return the number of copies: floor(f), and one more with probability f - floor(f).

        A larger factor only adds copies; other documents do not matter.

        Example: at factor 5/4, every document occurs once, and a quarter of them twice.
        """
        least, rest = divmod(factor, 1)
        return least + (
            order_key(uid, "balance", self.seed) * rest.denominator < rest.numerator << 64
        )

    def count(self, documents: RowBatch, tokens: SomeShards, inputs: UnitInputs) -> Int64:
        factors = read_factors(FACTORS.open(inputs))
        uids = documents.fixed["document_uid"]
        codes = documents.fixed["source_group"].tolist()
        rows = zip(uids, iterate_languages(documents, tokens.languages), codes, strict=True)
        counts = (
            self.draw(uid.tobytes(), factors[language][tokens.source_groups[source]])
            for uid, language, source in rows
        )
        return np.fromiter(counts, np.int64, len(documents))


def iterate_languages(documents: RowBatch, languages: Sequence[str]) -> Iterator[str]:
    """Yield the language of each token document; of a pair both languages, such as `en-sw`."""
    targets = documents.columns.get("target_language")
    for row, code in enumerate(documents.fixed["language"].tolist()):
        target = [] if targets is None else targets[row].tolist()
        yield "-".join(languages[side] for side in (code, *target))
