"""Decide how many copies of each document training reads.

The number follows from the language and the source of the document, from a hash of its uid, and
from the lengths of the other documents in its shard.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.checksummed_json import refuse_newer
from clozeline.pipeline.execution.contributions import DocumentCopies, ParentFile
from clozeline.pipeline.execution.unit_inputs import SomeShards, UnitInputs
from clozeline.pipeline.group.documents import count_tokens
from clozeline.pipeline.rows import RowBatch
from clozeline.recorded_file import RecordedFile
from clozeline.seeding import order_key

FACTORS: Final = ParentFile("balance", "main", "000000", "factors.json", "factors")
FACTORS_FORMAT: Final = 2
LANGUAGE: Final = 0
SOURCE: Final = 2
"""Parts of `group.partition(" ")`."""
Factors: TypeAlias = Mapping[str, Fraction]
"""Mean copies per document, by group of documents."""


def read_factors(file: RecordedFile) -> Factors:
    """Return the factors that `balance` wrote."""
    content = json.loads(file.text())
    refuse_newer(file.path, content, FACTORS_FORMAT)
    return {group: Fraction(factor) for group, factor in content["factors"].items()}


@dataclass(frozen=True)
class BalancedCopies(DocumentCopies):
    """Copies by the factors that `balance` wrote."""

    VERSION = 2
    seed: int

    def count(self, documents: RowBatch, tokens: SomeShards, inputs: UnitInputs) -> Int64:
        factors = read_factors(FACTORS.open(inputs))
        groups = np.array([*iterate_groups(documents, tokens)])
        uids = documents.fixed["document_uid"]
        lengths = count_tokens(documents)
        copies = np.zeros(len(documents), np.int64)
        for group in np.unique(groups):
            rows = groups == group
            copies[rows] = self.draw(uids[rows], lengths[rows], factors[group])
        return copies

    def draw(self, uids: NDArray[np.uint8], lengths: Int64, factor: Fraction) -> Int64:
        """Return the copies of documents of one group, [documents]: floor(f), or one more.

        The longest documents are drawn first, with probability f - floor(f). After each draw, the
        probability becomes the share of the remaining tokens that is still needed. So f is the mean
        of every document, and short documents make up for what the draws of long ones have added.

        Example: at factor 5/4, every document occurs once, and some with a quarter of the tokens
        twice.
        """
        least, rest = divmod(factor, 1)
        copies = np.full(len(uids), least)
        left = int(lengths.sum())
        needed = round(rest * left)

        for row in np.argsort(-lengths, kind="stable").tolist():
            size = int(lengths[row])
            if order_key(uids[row].tobytes(), "balance", self.seed) * left < needed << 64:
                copies[row] += 1
                needed -= size
            left -= size

        return copies


def iterate_groups(documents: RowBatch, tokens: SomeShards) -> Iterator[str]:
    """Yield the group of each token document: language and source, such as `en web`.

    The language of a pair names both sides, such as `en-sw`.
    """
    targets = documents.columns.get("target_language")
    codes = zip(documents.fixed["language"], documents.fixed["source_group"], strict=True)
    for row, (code, source) in enumerate(codes):
        target = [] if targets is None else targets[row].tolist()
        language = "-".join(tokens.languages[side] for side in (code, *target))
        yield f"{language} {tokens.source_groups[source]}"


def add_up_by(part: int, amounts: Mapping[str, int]) -> Counter[str]:
    """Return the amounts of groups, added up for each language or source."""
    sums = Counter[str]()
    for group, amount in amounts.items():
        sums[group.partition(" ")[part]] += amount
    return sums
