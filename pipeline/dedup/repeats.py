"""Pieces of texts that can repeat: lines and spans of sentences, each hashed by words in the match form."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Final, TypeAlias

import numpy as np
import xxhash

from clozeline.arrays import Int64, UInt64
from clozeline.pipeline.dedup.config import Within
from clozeline.pipeline.text.normal_form import normalize
from clozeline.pipeline.text.sentences import Sentences
from clozeline.pipeline.text.word_hashes import WordHashes

REPEATS_VERSION: Final = 1
"""Raised when a piece, its hash, or what is left of a text changes."""
Hashes: TypeAlias = tuple[UInt64, Int64]
"""Hashes of pieces, shape [n], and the unit at which each starts, shape [n]."""


@dataclass
class Pieces(ABC):
    """A type of pieces: runs of units (lines, sentences, words) of a text."""

    NAME: ClassVar[str]
    JOINT: ClassVar[str] = "\n\n"  # between what is left before and after a removed run

    max_documents: int | None  # a piece in more documents repeats; None: a piece that occurs twice repeats
    keep_first: bool  # whether the first occurrence, by (uid, unit), stays
    within: Within
    units: int  # of a piece

    @cached_property
    def words(self) -> WordHashes:
        return WordHashes()

    @abstractmethod
    def starts(self, text: str, language: str) -> Sequence[int]:
        """Return the character offset at which each unit starts; a unit ends where the next one starts."""

    @abstractmethod
    def hashes(self, text: str, language: str) -> Hashes:
        """Return the hashes of all pieces of a text, those that may stay left out."""

    def cut(self, text: str, language: str, runs: Iterable[tuple[int, int]]) -> str:
        """Return the stored form of a text without runs of units [first, last), which may overlap."""
        starts = [*self.starts(text, language), len(text)]
        kept, at, covered = list[str](), 0, 0
        for first, last in sorted(runs):
            if first > covered or not kept:
                kept.append(text[at : starts[first]])
            covered = max(covered, last)
            at = starts[covered]
        return normalize(self.JOINT.join([*kept, text[at:]]))


@dataclass
class Lines(Pieces):
    """Lines of a text (CCNet, arXiv 1911.00359 section 3.1)."""

    NAME: ClassVar[str] = "lines"
    JOINT: ClassVar[str] = ""

    min_letters: int = 1
    """lines with fewer letters stay"""

    @cached_property
    def _letters(self) -> re.Pattern[str]:
        return re.compile(rf"(?:[^\W\d_][\W\d_]*){{{self.min_letters}}}")

    def starts(self, text: str, language: str) -> Sequence[int]:
        return [0, *(match.end() for match in re.finditer("\n", text))]

    def hashes(self, text: str, language: str) -> Hashes:
        lines = text.split("\n")
        kept = [index for index, line in enumerate(lines) if self._letters.search(line)]
        return _hash_all(self.words.digests(lines[index]) for index in kept), np.array(kept, np.int64)


@dataclass
class Spans(Pieces):
    """Runs of consecutive sentences (C4, arXiv 1910.10683 section 2.2)."""

    NAME: ClassVar[str] = "spans"

    splitter: Sentences = field(kw_only=True)

    def starts(self, text: str, language: str) -> Sequence[int]:
        return self.splitter.starts(text, language)

    def hashes(self, text: str, language: str) -> Hashes:
        starts = [*self.starts(text, language), len(text)]
        words = [self.words.digests(text[first:last]) for first, last in pairwise(starts)]
        # one hash a sentence, 8 bytes, so that equal words with other sentence ends are another span
        digests = [xxhash.xxh3_64_digest(digest) for digest in words]
        # spans without words stay
        kept = [first for first in range(len(words) - self.units + 1) if any(words[first : first + self.units])]
        return _hash_all(b"".join(digests[first : first + self.units]) for first in kept), np.array(kept, np.int64)


def _hash_all(digests: Iterable[bytes]) -> UInt64:
    return np.array([xxhash.xxh3_64_intdigest(digest) for digest in digests], np.uint64)
