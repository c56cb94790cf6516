"""Pieces of texts that repeat, lines and spans of sentences: hash those of each part, then decide range by range.

Pieces are compared by their words in the match form.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Final, TypeAlias

import numpy as np
import xxhash

from clozeline.arrays import Int64, UInt64
from clozeline.pipeline.dedup.config import Within
from clozeline.pipeline.dedup.parts import PIECE_DROP, DedupCounts, Parts, PieceCounts
from clozeline.pipeline.dedup.rows import (
    hash_bounds,
    number_bounds,
    pack_rows,
    read_rows,
    run_starts,
    uid_column,
    write_rows,
)
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.text.normal_form import NormalForm, normalize_as
from clozeline.pipeline.text.sentences.regex import Regex
from clozeline.pipeline.text.word_hashes import WordHashes
from clozeline.seeding import hash64

REPEATS_VERSION: Final = 2
"""Raised when a piece, its hash, or what is left of a text changes."""
Hashes: TypeAlias = tuple[UInt64, Int64]
"""Hashes of pieces, shape [n], and the unit at which each starts, shape [n]."""
_Documents: TypeAlias = Callable[[int], Iterator[tuple[int, Document]]]
"""Yields the documents of a part that earlier types leave, each with its row in the part."""
_PIECE: Final = (("hash", "<u8"), ("uid", "S16"), ("part", "<u4"), ("row", "<u4"), ("first", "<u4"))
"""Row of a piece: its hash, its document by uid and by part and row, and its first unit there."""


@dataclass
class Pieces(ABC):
    """A type of pieces: runs of units (lines, sentences, words) of a text."""

    NAME: ClassVar[str]
    JOINT: ClassVar[str] = "\n\n"  # between what is left before and after a removed run

    max_documents: int | None  # a piece in more documents repeats; None: a piece that occurs twice repeats
    keep_first: bool  # whether the first occurrence, by (uid, unit), stays
    within: Within
    units: int  # of a piece
    numbers: bool = True  # whether other numbers make another piece

    @cached_property
    def words(self) -> WordHashes:
        return WordHashes("numbers" if self.numbers else "words")

    @abstractmethod
    def starts(self, text: str, language: str) -> Sequence[int]:
        """Return the character offset at which each unit starts; a unit ends where the next one starts."""

    @abstractmethod
    def hashes(self, text: str, language: str) -> Hashes:
        """Return the hashes of all pieces of a text, those that may stay left out."""

    def cut(self, text: str, language: str, runs: Iterable[tuple[int, int]], form: NormalForm = "prose") -> str:
        """Return the stored form of a text without runs of units [first, last), which may overlap."""
        starts = [*self.starts(text, language), len(text)]
        kept, at, covered = list[str](), 0, 0
        for first, last in sorted(runs):
            if first > covered or not kept:
                kept.append(text[at : starts[first]])
            covered = max(covered, last)
            at = starts[covered]
        left, _ = normalize_as(form, self.JOINT.join([*kept, text[at:]]))
        return left if left.strip() else ""


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

    @cached_property
    def splitter(self) -> Regex:
        return Regex(Regex.Options())

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


class PieceHashes(Pass[DedupCounts]):
    """Per part: send the hashes of the pieces of the documents that earlier types leave to ranges of hashes.

    Texts with a translation are neither counted nor changed: their sides would no longer agree.
    """

    def __init__(
        self, parts: Parts, pieces: Pieces, documents: Callable[[int], Iterator[tuple[int, Document]]]
    ) -> None:
        self.parts, self.pieces, self.documents = parts, pieces, documents
        self.name, self.units = f"{pieces.NAME}-hashes", parts.own

    def run(self, unit: int, output: Output) -> DedupCounts:
        parts, name = self.parts, self.pieces.NAME
        hashes, firsts = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
        uids, rows, sizes, pairs = list[bytes](), list[int](), list[int](), 0
        for row, document in self.documents(unit):
            if document.target_text is not None:
                pairs += 1
                continue
            of_pieces, first = self.pieces.hashes(document.text, document.language)
            if self.pieces.within == "source":
                of_pieces = of_pieces ^ np.uint64(hash64("source", document.source_group))
            hashes.append(of_pieces)
            firsts.append(first)
            uids.append(document.uid)
            rows.append(row)
            sizes.append(len(first))
        # documents [n] repeated for each of their pieces [m]
        columns = {"hash": np.concatenate(hashes), "first": np.concatenate(firsts)}
        columns |= {"uid": np.repeat(uid_column(uids), sizes), "row": np.repeat(np.array(rows, np.uint32), sizes)}
        columns["part"] = np.full(len(columns["row"]), unit, np.uint32)
        order = np.argsort(columns["hash"], kind="stable")
        packed = pack_rows(_PIECE, columns)[order]
        bounds = hash_bounds(columns["hash"][order], parts.ranges)
        write_rows(output, parts.shuffle(f"{name}-hashes"), unit, packed, bounds)
        amounts: PieceCounts = {"documents": len(uids) + pairs, "pairs": pairs, "hashed": len(packed)}
        return {"pieces": {name: amounts}}


class PieceDrops(Pass[DedupCounts]):
    """Per range of hashes: find the pieces that repeat, and send those to remove to their parts."""

    def __init__(self, parts: Parts, pieces: Pieces) -> None:
        self.parts, self.pieces = parts, pieces
        self.name, self.units = f"{pieces.NAME}-drops", parts.ranges

    def run(self, unit: int, output: Output) -> DedupCounts:
        parts, name = self.parts, self.pieces.NAME
        rows = read_rows(parts.folder, parts.shuffle(f"{name}-hashes"), unit, _PIECE)
        rows = rows[np.lexsort((rows["first"], rows["uid"], rows["hash"]))]
        is_first = run_starts(rows["hash"])
        counted, limit = np.ones(len(rows), dtype=bool), 1
        if self.pieces.max_documents is not None:
            # count each document once, not each of its pieces
            counted, limit = is_first | run_starts(rows["uid"]), self.pieces.max_documents
        groups = np.cumsum(is_first) - 1
        repeated = np.bincount(groups, weights=counted)[groups] > limit if len(rows) else is_first
        removed = rows[repeated & ~is_first] if self.pieces.keep_first else rows[repeated]
        # runs of units [first, last) of the documents, by part
        removed = removed[np.lexsort((removed["first"], removed["row"], removed["part"]))]
        bounds = number_bounds(removed["part"], parts.own)
        columns = {"row": removed["row"], "first": removed["first"]}
        columns["last"] = removed["first"] + np.uint32(self.pieces.units)
        write_rows(output, parts.shuffle(f"{name}-drops"), unit, pack_rows(PIECE_DROP, columns), bounds)
        amounts: PieceCounts = {"compared": len(rows), "repeated": int(repeated.sum()), "dropped": len(removed)}
        return {"pieces": {name: amounts}}
