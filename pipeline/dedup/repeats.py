"""Find and remove repeated pieces of texts: lines, and spans of sentences.

Pieces are hashed part by part, and decided range by range.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Final, TypeAlias

import numpy as np
import xxhash

from clozeline.arrays import Int64, UInt64
from clozeline.configuration.config import config_digest
from clozeline.pipeline.dedup.config import Within
from clozeline.pipeline.dedup.parts import (
    DROP,
    PIECE_DROP,
    DedupCounts,
    find_group_starts,
    pack_rows,
    read_numbered_rows,
    read_rows,
    send_by_hash,
    send_by_number,
    uid_bytes,
    uid_column,
)
from clozeline.pipeline.execution.rewritten_documents import open_documents, rewrite_part
from clozeline.pipeline.execution.shuffle import Pieces, Shuffle
from clozeline.pipeline.execution.stages import Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import Output, add_counts
from clozeline.pipeline.ingest.documents.document import FLAG_SPANS_REMOVED, Document
from clozeline.pipeline.ingest.documents.files import Rejection, read_documents
from clozeline.pipeline.text.normal_form import MATCH_VERSION, NormalForm, fold, normalize_as
from clozeline.pipeline.text.sentences.regex import Regex
from clozeline.pipeline.text.word_hashes import digest_words
from clozeline.seeding import hash64

REPEATS_VERSION: Final = 2
"""Raised when a piece, its hash, or the remaining text changes."""
Hashes: TypeAlias = tuple[UInt64, Int64]
"""Hashes of pieces, shape [n], and the index of the first unit of each piece, shape [n]."""
_NUMBER: Final = re.compile(r"\d+")
_PIECE_ROW: Final = (("hash", "<u8"), ("uid", "S16"), ("row", "<u4"), ("first", "<u4"))
"""Row of a piece: its hash, its document (uid, and row in its part), and the index of its first
unit."""


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
    within: Within
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
    def hashes(self, text: str, language: str) -> Hashes:
        """Return the hashes of the pieces of a text, without pieces that always stay."""

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

    NAME: ClassVar[str] = "lines"
    SEPARATOR: ClassVar[str] = ""

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
        return _hash_all(self.digest_words(lines[index]) for index in kept), np.array(
            kept, np.int64
        )


@dataclass
class SpanPieces(TextPieces):
    """Runs of consecutive sentences (C4, arXiv 1910.10683 section 2.2)."""

    VERSION: ClassVar[int] = TextPieces.VERSION + Regex.VERSION
    NAME: ClassVar[str] = "spans"

    @cached_property
    def splitter(self) -> Regex:
        return Regex(Regex.Options())

    def starts(self, text: str, language: str) -> Sequence[int]:
        return self.splitter.starts(text, language)

    def hashes(self, text: str, language: str) -> Hashes:
        starts = [*self.starts(text, language), len(text)]
        words = [self.digest_words(text[first:last]) for first, last in pairwise(starts)]
        # 8 bytes per sentence: equal words with other sentence boundaries get another hash
        digests = [xxhash.xxh3_64_digest(digest) for digest in words]
        # spans without words stay
        kept = [
            first
            for first in range(len(words) - self.units + 1)
            if any(words[first : first + self.units])
        ]

        return _hash_all(b"".join(digests[first : first + self.units]) for first in kept), np.array(
            kept, np.int64
        )


def _hash_all(digests: Iterable[bytes]) -> UInt64:
    return np.array([xxhash.xxh3_64_intdigest(digest) for digest in digests], np.uint64)


@dataclass(frozen=True)
class PieceHashes(Unit[DedupCounts]):
    """Hash the pieces of the documents of a part that earlier types keep, and send the hashes.

    Texts with a translation are neither counted nor changed, because their sides would differ.
    """

    part: str
    is_compared: bool
    pieces: TextPieces
    earlier: "RemovalTypes"
    sent: Shuffle

    def run(self, inputs: UnitInputs, output: Output) -> DedupCounts:
        name = self.pieces.NAME
        hashes = [np.empty(0, np.uint64)]
        firsts = [np.empty(0, np.int64)]
        uids = list[bytes]()
        rows = list[int]()
        sizes = list[int]()
        pairs = 0

        removal = PartRemoval(self.earlier, inputs, self.part, self.is_compared)
        for row, document in removal.documents():
            if document.target_text is not None:
                pairs += 1
                continue
            piece_hashes, first_units = self.pieces.hashes(document.text, document.language)
            if self.pieces.within == "source":
                piece_hashes = piece_hashes ^ np.uint64(hash64("source", document.source_group))
            hashes.append(piece_hashes)
            firsts.append(first_units)
            uids.append(document.uid)
            rows.append(row)
            sizes.append(len(first_units))

        # documents [n] repeated for each of their pieces [m]
        columns = {"hash": np.concatenate(hashes), "first": np.concatenate(firsts)}
        columns |= {
            "uid": np.repeat(uid_column(uids), sizes),
            "row": np.repeat(np.array(rows, np.uint32), sizes),
        }
        packed = pack_rows(_PIECE_ROW, columns)
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
        removed = pack_rows(PIECE_DROP, columns)
        keys = part[chosen], removed["row"], removed["first"]
        send_by_number(output, self.drops, self.name, removed, *keys)
        return {"pieces": {self.pieces.NAME: {"repeated": int(repeated.sum())}}}


@dataclass(frozen=True)
class RemovalTypes:
    """The types of duplicates to remove: `exact`, `near`, then each type of pieces.

    A type that removes nothing from a part does not decide about it, so options of pieces are in
    the digests of what is removed (`salt_pieces`), not here.
    """

    exact: Pieces
    near: Pieces
    runs: tuple[Pieces, ...]
    """runs of units to remove, by type of pieces"""
    seed: int
    pieces: Mapping[str, TextPieces] = field(compare=False)
    """types of pieces by the name of the shuffle of their runs"""
    forms: Mapping[str, NormalForm] = field(compare=False, default_factory=dict)
    """stored form of texts by source group; other groups have the form `prose`"""

    def before(self, drops: str) -> "RemovalTypes":
        """Return the types that are removed before pieces are compared."""
        names = [each.name for each in self.runs]
        return replace(self, runs=self.runs[: names.index(drops)])


def salt_pieces(pieces: TextPieces, forms: Mapping[str, NormalForm]) -> str:
    """Return a digest of the options that decide what remains of a text without some pieces."""
    return config_digest([pieces.NAME, pieces.VERSION, asdict(pieces), dict(forms)])


@dataclass
class PartRemoval:
    """Decides about the documents of a part, and counts the pieces that it removes."""

    removals: RemovalTypes
    inputs: UnitInputs
    part: str
    is_compared: bool

    def __post_init__(self) -> None:
        self.counts: DedupCounts = {"edited": 0, "edits": {}}
        self._exact = self._read_drops(self.removals.exact)
        self._near = self._read_drops(self.removals.near)
        # runs of units by type of pieces and row of the document
        self._runs = {each.name: self._read_runs(each) for each in self.removals.runs}

    def documents(self) -> Iterator[tuple[int, Document]]:
        """Yield each document that stays, without removed pieces, and its row in the part."""
        for row, document in enumerate(read_documents(open_documents(self.inputs, self.part))):
            decided = self.decide(row, document)
            if isinstance(decided, Document):
                yield row, decided

    def decide(self, row: int, document: Document) -> Document | Rejection | None:
        """Return a document without removed pieces, or its rejection, by its row in the part.

        None for a document that is only compared.
        """
        if self.is_compared:
            return None
        if (kept := self._exact.get(document.uid)) is not None:
            # the copy that exact dedup kept may itself have been dropped for a near-duplicate
            return self._reject(document, "exact_duplicate", self._near.get(kept, kept).hex())
        if (kept := self._near.get(document.uid)) is not None:
            return self._reject(document, "near_duplicate", kept.hex())
        return self._remove_pieces(row, document)

    def _remove_pieces(self, row: int, document: Document) -> Document | Rejection:
        """Return the document without repeated pieces, or its rejection if no text remains."""
        text = document.text
        removed = dict[str, int]()
        form = self.removals.forms.get(document.source_group, "prose")

        for name, by_row in self._runs.items():
            if not (runs := by_row.get(row)):
                continue
            pieces = self.removals.pieces[name]
            remaining = pieces.remove_runs(text, document.language, runs, form)
            if not remaining:
                detail = f"{len(runs):,} repeated {pieces.NAME}"
                return self._reject(document, f"repeated_{pieces.NAME}", detail)
            removed[pieces.NAME] = len(text) - len(remaining)
            text = remaining

        if not removed:
            return document
        add_counts(self.counts, {"edits": removed, "edited": 1})
        return document.replace_text(text, flags=document.flags | FLAG_SPANS_REMOVED)

    def _reject(self, document: Document, reason: str, detail: str) -> Rejection:
        return Rejection.from_document(
            document, stage="dedup", reason=reason, detail=detail, seed=self.removals.seed
        )

    def _read_drops(self, drops: Pieces) -> dict[bytes, bytes]:
        """Return the kept uid of each dropped uid; near drops may repeat a uid.

        Near drops also include kept documents of which the part had exact copies.
        """
        rows = read_rows(self.inputs, drops, self.part, DROP)
        return dict(zip(uid_bytes(rows["uid"]), uid_bytes(rows["kept"]), strict=True))

    def _read_runs(self, drops: Pieces) -> dict[int, list[tuple[int, int]]]:
        rows = np.sort(read_rows(self.inputs, drops, self.part, PIECE_DROP))
        runs: dict[int, list[tuple[int, int]]] = {}
        for row, first, last in rows.tolist():
            runs.setdefault(row, []).append((first, last))
        return runs


@dataclass(frozen=True)
class RemoveDuplicates(Unit[DedupCounts]):
    """Write the remaining documents of a part, and rejections that name the kept document."""

    VERSION: ClassVar[int] = REPEATS_VERSION
    part: str
    is_compared: bool
    removals: RemovalTypes

    def run(self, inputs: UnitInputs, output: Output) -> DedupCounts:
        removal = PartRemoval(self.removals, inputs, self.part, self.is_compared)
        documents = open_documents(inputs, self.part)
        counts: DedupCounts = {}
        add_counts(counts, rewrite_part(output, self.part, documents, removal.decide))
        return add_counts(counts, removal.counts)
