"""Find and remove repeated pieces of texts: lines, and spans of sentences.

Pieces are hashed part by part, and decided range by range.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Final

import numpy as np
import xxhash

from clozeline.configuration.config import config_digest
from clozeline.pipeline.dedup.parts import (
    DedupCounts,
    Parts,
    find_group_starts,
    pack_rows,
    read_numbered_rows,
    read_rows,
    send_by_hash,
    send_by_number,
)
from clozeline.pipeline.dedup.removal import Edit, EditPasses, PartRemoval, RemovalTypes, TextEdits
from clozeline.pipeline.execution.shuffle import Pieces, Shuffle
from clozeline.pipeline.execution.stages import Pass, Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.text.normal_form import MATCH_VERSION, NormalForm, fold, normalize_as
from clozeline.pipeline.text.sentences.regex import Regex
from clozeline.pipeline.text.word_hashes import digest_words
from clozeline.seeding import hash64

REPEATS_VERSION: Final = 2
"""Raised when a piece, its hash, or the remaining text changes."""
_NUMBER: Final = re.compile(r"\d+")
_PIECE_ROW: Final = (("hash", "<u8"), ("uid", "S16"), ("row", "<u4"), ("first", "<u4"))
"""Row of a piece: its hash, its document (uid, and row in its part), and the index of its first
unit."""
_PIECE_DROP: Final = (("row", "<u4"), ("first", "<u4"), ("last", "<u4"))
"""Row of a removed piece: the row of its document in the part, and its units [first, last)."""


@dataclass
class TextPieces(ABC):
    """Base class of types of pieces: runs of units (lines, sentences, words) of a text."""

    VERSION: ClassVar[int] = REPEATS_VERSION + MATCH_VERSION
    """raised if hashes or decisions change"""
    NAME: ClassVar[str]
    SEPARATOR: ClassVar[str] = "\n\n"
    """string that joins the texts before and after a removed run"""

    max_documents: int | None
    """a piece in more documents is repeated; None: a piece that occurs twice is repeated"""
    keep_first: bool
    """whether the first occurrence, by (uid, unit), stays"""
    within: str
    """documents among which pieces are counted: `all`, or those of the same `source`"""
    units: int
    """number of units of a piece"""
    numbers: bool = True
    """whether different numbers make different pieces"""

    def digest_words(self, text: str) -> bytes:
        """Return the hashes of the words of a text, 8 bytes each."""
        return digest_words(fold(text if self.numbers else _NUMBER.sub("0", text)))

    @abstractmethod
    def starts(self, text: str, language: str) -> Sequence[int]:
        """Return the character offset of each unit, which ends where the next one starts."""

    @abstractmethod
    def digests(self, text: str, language: str) -> Iterator[tuple[int, bytes]]:
        """Yield the first unit of each piece and a digest of its words.

        Pieces that always stay are left out.
        """

    def remove_runs(
        self, text: str, language: str, runs: Iterable[tuple[int, int]], form: NormalForm = "prose"
    ) -> str:
        """Return the stored form of a text without runs of units, [first, last) each."""
        starts = [*self.starts(text, language), len(text)]
        kept = list[str]()
        position = 0
        covered = 0  # end of the units removed so far

        for first, last in sorted(runs):
            if first > covered or not kept:
                kept.append(text[position : starts[first]])
            covered = max(covered, last)
            position = starts[covered]

        remaining, _ = normalize_as(form, self.SEPARATOR.join([*kept, text[position:]]))
        return remaining if remaining.strip() else ""


@dataclass
class LinePieces(TextPieces):
    """Lines of a text (CCNet, arXiv 1911.00359 section 3.1)."""

    NAME = "lines"
    SEPARATOR = ""

    min_letters: int = 1
    """lines with fewer letters stay"""

    @cached_property
    def _letters(self) -> re.Pattern[str]:
        return re.compile(rf"(?:[^\W\d_][\W\d_]*){{{self.min_letters}}}")

    def starts(self, text: str, language: str) -> Sequence[int]:
        return [0, *(match.end() for match in re.finditer("\n", text))]

    def digests(self, text: str, language: str) -> Iterator[tuple[int, bytes]]:
        for index, line in enumerate(text.split("\n")):
            if self._letters.search(line):
                yield index, self.digest_words(line)


@dataclass
class SpanPieces(TextPieces):
    """Runs of consecutive sentences (C4, arXiv 1910.10683 section 2.2)."""

    VERSION = TextPieces.VERSION + Regex.VERSION
    NAME = "spans"

    @cached_property
    def splitter(self) -> Regex:
        return Regex(Regex.Options())

    def starts(self, text: str, language: str) -> Sequence[int]:
        return self.splitter.starts(text, language)

    def digests(self, text: str, language: str) -> Iterator[tuple[int, bytes]]:
        starts = [*self.starts(text, language), len(text)]
        words = [self.digest_words(text[first:last]) for first, last in pairwise(starts)]
        # 8 bytes per sentence: equal words with other sentence boundaries get another hash
        digests = [xxhash.xxh3_64_digest(digest) for digest in words]
        for first in range(len(words) - self.units + 1):
            if any(words[first : first + self.units]):  # spans without words stay
                yield first, b"".join(digests[first : first + self.units])


@dataclass(frozen=True)
class PieceHashes(Unit[DedupCounts]):
    """Hash the pieces of the documents of a part that earlier types keep, and send the hashes.

    Texts with a translation are neither counted nor changed, because their sides would differ.
    """

    part: str
    is_compared: bool
    pieces: TextPieces
    earlier: RemovalTypes
    sent: Shuffle

    def run(self, inputs: UnitInputs, output: Output) -> DedupCounts:
        name = self.pieces.NAME
        dtype = np.dtype(list(_PIECE_ROW))
        found = [np.empty(0, dtype)]
        pairs = 0

        removal = PartRemoval(self.earlier, inputs, self.part, self.is_compared)
        for row, document in removal.documents():
            if document.target_text is not None:
                pairs += 1
                continue
            by_source = self.pieces.within == "source"
            mask = hash64("source", document.source_group) if by_source else 0
            rows = [
                (xxhash.xxh3_64_intdigest(digest) ^ mask, document.uid, row, first)
                for first, digest in self.pieces.digests(document.text, document.language)
            ]
            found.append(np.array(rows, dtype))

        packed = np.concatenate(found)
        send_by_hash(output, self.sent, self.part, packed, packed["hash"])
        return {"pieces": {name: {"pairs": pairs}}}


@dataclass(frozen=True)
class PieceDrops(Unit[DedupCounts]):
    """Find repeated pieces in a range of hashes, and send the removed pieces to their parts."""

    name: str
    pieces: TextPieces
    hashes: Pieces
    drops: Shuffle
    """to all parts, whose numbers are those of the sources of hashes"""

    def run(self, inputs: UnitInputs, output: Output) -> DedupCounts:
        rows, part = read_numbered_rows(inputs, self.hashes, self.name, _PIECE_ROW)
        order = np.lexsort((rows["first"], rows["uid"], rows["hash"]))
        rows = rows[order]
        part = part[order]
        is_first = find_group_starts(rows["hash"])
        counted = np.ones(len(rows), dtype=bool)
        limit = 1

        if self.pieces.max_documents is not None:
            # count each document once, not each of its pieces
            counted = is_first | find_group_starts(rows["uid"])
            limit = self.pieces.max_documents

        groups = np.cumsum(is_first) - 1
        repeated = np.bincount(groups, weights=counted)[groups] > limit if len(rows) else is_first
        chosen = repeated & ~is_first if self.pieces.keep_first else repeated

        # runs of units [first, last) of the documents, by part
        columns = {"row": rows["row"][chosen], "first": rows["first"][chosen]}
        columns["last"] = columns["first"] + np.uint32(self.pieces.units)
        removed = pack_rows(_PIECE_DROP, columns)
        keys = part[chosen], removed["row"], removed["first"]
        send_by_number(output, self.drops, self.name, removed, *keys)
        return {"pieces": {self.pieces.NAME: {"repeated": int(repeated.sum())}}}


@dataclass(frozen=True)
class RepeatedPieces(TextEdits):
    """Removes the repeated pieces of a type.

    A type that removes nothing from a part does not decide about it, so its options are in the
    digests of what is removed.
    """

    name: str
    drops: Pieces
    pieces: TextPieces = field(compare=False)
    forms: Mapping[str, NormalForm] = field(compare=False)
    """stored form of texts by source group; other groups have the form `prose`"""

    def open(self, inputs: UnitInputs, part: str) -> Edit:
        rows = np.sort(read_rows(inputs, self.drops, part, _PIECE_DROP))
        runs: dict[int, list[tuple[int, int]]] = {}
        for row, first, last in rows.tolist():
            runs.setdefault(row, []).append((first, last))

        def edit(row: int, document: Document, text: str) -> tuple[str, int]:
            if row not in runs:
                return text, 0
            form = self.forms.get(document.source_group, "prose")
            remaining = self.pieces.remove_runs(text, document.language, runs[row], form)
            return remaining, len(runs[row])

        return edit


def find_repeats(pieces: TextPieces, parts: Parts, earlier: RemovalTypes) -> EditPasses:
    """Yield the passes that find repeated pieces; return what removes them."""
    name = pieces.NAME
    ranges = parts.range_names
    salt = config_digest([name, pieces.VERSION, asdict(pieces), dict(parts.forms)])
    sent = Shuffle(f"{name}-hashes", parts.names, ranges, f"{name}-hashes")
    drops = Shuffle(f"{name}-drops", ranges, parts.names, f"{name}-drops", salt)

    hashing = {
        part: PieceHashes(part, is_compared, pieces, earlier, sent)
        for part, is_compared in parts.compare.items()
    }
    yield Pass(sent.name, hashing)
    yield from sent.passes("dedup")
    dropping = {each: PieceDrops(each, pieces, sent.pieces, drops) for each in ranges}
    yield Pass(drops.name, dropping)
    yield from drops.passes("dedup")
    return RepeatedPieces(name, drops.pieces, pieces, parts.forms)
