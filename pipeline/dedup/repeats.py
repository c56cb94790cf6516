"""Find and remove repeated pieces of texts: lines, and spans of sentences.

Pieces are hashed part by part, and decided range by range.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import xxhash

from clozeline.arrays import Int64, UInt64
from clozeline.configuration.config import config_digest
from clozeline.pipeline.dedup.config import Within
from clozeline.pipeline.dedup.parts import (
    PIECE_DROP,
    DedupCounts,
    Parts,
    RangePass,
    find_group_starts,
    find_hash_bounds,
    find_number_bounds,
    pack_rows,
    read_numbered_rows,
    read_rows,
    uid_bytes,
    uid_column,
    write_rows,
)
from clozeline.pipeline.execution.rewritten_documents import rewrite_part
from clozeline.pipeline.execution.shuffle import NOTHING
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import KnownRecords, Output, add_counts
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

    @property
    def options(self) -> Mapping[str, Any]:
        """Versions and options that determine hashes and decisions, as JSON data."""
        return {"type": self.NAME, "version": REPEATS_VERSION + MATCH_VERSION, **asdict(self)}

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

    NAME: ClassVar[str] = "spans"

    @property
    def options(self) -> Mapping[str, Any]:
        return {**super().options, "splitter": Regex.VERSION}

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


class PieceHashes(Pass[DedupCounts]):
    """Per part: hash the pieces of the documents that earlier types keep, and send the hashes.

    Texts with a translation are neither counted nor changed, because their sides would differ.
    """

    def __init__(self, pieces: TextPieces, earlier: "RemovalTypes") -> None:
        self.parts = earlier.parts
        self.pieces = pieces
        self.earlier = earlier
        self.name = f"{pieces.NAME}-hashes"
        self.units = earlier.parts.units

    def unit_name(self, unit: int) -> str:
        return self.parts.names[unit]

    def options(self, unit: int) -> Mapping[str, Any]:
        return {**self.earlier.options, **self.pieces.options, "ranges": self.parts.ranges}

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        return self.earlier.reads(unit, known)

    def run(self, unit: int, output: Output) -> DedupCounts:
        parts = self.parts
        name = self.pieces.NAME
        hashes = [np.empty(0, np.uint64)]
        firsts = [np.empty(0, np.int64)]
        uids = list[bytes]()
        rows = list[int]()
        sizes = list[int]()
        pairs = 0

        for row, document in self.earlier.documents(unit):
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
        order = np.argsort(columns["hash"], kind="stable")
        packed = pack_rows(_PIECE_ROW, columns)[order]
        bounds = find_hash_bounds(columns["hash"][order], parts.ranges)
        write_rows(output, parts.shuffle(f"{name}-hashes"), self.unit_name(unit), packed, bounds)
        return {"pieces": {name: {"pairs": pairs}}}


class PieceDrops(RangePass):
    """Per range of hashes: find repeated pieces, and send the removed pieces to their parts."""

    def __init__(self, parts: Parts, pieces: TextPieces) -> None:
        self.parts = parts
        self.pieces = pieces
        self.name = f"{pieces.NAME}-drops"
        self.units = parts.ranges

    def options(self, unit: int) -> Mapping[str, Any]:
        return self.pieces.options

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        return {
            f"{self.pieces.NAME} of documents": self.parts.digest_files(
                f"{self.pieces.NAME}-hashes", known
            )
        }

    def run(self, unit: int, output: Output) -> DedupCounts:
        parts = self.parts
        name = self.pieces.NAME
        rows, part = read_numbered_rows(
            parts.folder, parts.shuffle(f"{name}-hashes"), unit, _PIECE_ROW
        )
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
        removed = rows[chosen]
        part = part[chosen]

        # runs of units [first, last) of the documents, by part
        order = np.lexsort((removed["first"], removed["row"], part))
        removed = removed[order]
        bounds = find_number_bounds(part[order], parts.units)
        columns = {"row": removed["row"], "first": removed["first"]}
        columns["last"] = removed["first"] + np.uint32(self.pieces.units)
        shuffle = parts.shuffle(f"{name}-drops")
        write_rows(output, shuffle, self.unit_name(unit), pack_rows(PIECE_DROP, columns), bounds)
        return {"pieces": {name: {"repeated": int(repeated.sum())}}}


@dataclass(frozen=True)
class RemovalTypes:
    """The types of duplicates to remove: `exact`, `near`, then each type of pieces."""

    parts: Parts
    exact: bool
    near: bool
    pieces: tuple[TextPieces, ...]
    seed: int
    forms: Mapping[str, NormalForm] = field(default_factory=dict)
    """stored form of texts by source group; other groups have the form `prose`"""

    @property
    def options(self) -> Mapping[str, Any]:
        """Versions and options that determine which documents stay, as JSON data."""
        return {"version": REPEATS_VERSION, "seed": self.seed}

    def reads(self, part: int, known: KnownRecords) -> Mapping[str, str]:
        """Return digests of the documents of a part, and of what is removed from them.

        A type that removes nothing from the part is left out, so its options do not matter.
        """
        removed = ["exact-drops"] * self.exact + ["near-drops"] * self.near
        drops = {name: self.parts.digest_pieces(name, known, part) for name in removed}
        for each in self.pieces:
            name = f"{each.NAME}-drops"
            drops[name] = self.parts.digest_pieces(name, known, part)
            if drops[name] != NOTHING:
                options = config_digest([dict(each.options), dict(self.forms)])
                drops[f"{each.NAME} options"] = options

        found = {name.replace("-", " "): digest for name, digest in drops.items()}
        changed = {name: digest for name, digest in found.items() if digest != NOTHING}
        role = {"role": "compare"} if part in self.parts.compared else {}
        return {"documents": self.parts.digest(part, known), **role, **changed}

    def earlier_types(self, pieces: TextPieces) -> "RemovalTypes":
        """Return the types that are removed before these pieces are compared."""
        return replace(self, pieces=self.pieces[: self.pieces.index(pieces)])

    def documents(self, part: int) -> Iterator[tuple[int, Document]]:
        """Yield each document that stays, without removed pieces, and its row in the part."""
        removal = PartRemoval(self, part)
        for row, document in enumerate(read_documents(self.parts.find_documents(part))):
            decided = removal.decide(row, document)
            if isinstance(decided, Document):
                yield row, decided


@dataclass
class PartRemoval:
    """Decides about the documents of a part, and counts the pieces that it removes."""

    removals: RemovalTypes
    part: int

    def __post_init__(self) -> None:
        self.counts: DedupCounts = {"edited": 0, "edits": {}}
        self._exact = self._read_drops("exact-drops") if self.removals.exact else {}
        self._near = self._read_drops("near-drops") if self.removals.near else {}
        # runs of units by type of pieces and row of the document
        self._runs = {pieces.NAME: self._read_runs(pieces.NAME) for pieces in self.removals.pieces}

    def decide(self, row: int, document: Document) -> Document | Rejection | None:
        """Return a document without removed pieces, or its rejection, by its row in the part.

        None for a document that is only compared.
        """
        if self.part in self.removals.parts.compared:
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

        for pieces in self.removals.pieces:
            if not (runs := self._runs[pieces.NAME].get(row)):
                continue
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

    def _read_drops(self, name: str) -> dict[bytes, bytes]:
        """Return the kept uid of each dropped uid; near drops may repeat a uid."""
        dropped, kept = map(uid_bytes, self.removals.parts.read_drops(name, self.part))
        return dict(zip(dropped, kept, strict=True))

    def _read_runs(self, name: str) -> dict[int, list[tuple[int, int]]]:
        parts = self.removals.parts
        rows = np.sort(
            read_rows(parts.folder, parts.shuffle(f"{name}-drops"), self.part, PIECE_DROP)
        )
        runs: dict[int, list[tuple[int, int]]] = {}
        for row, first, last in rows.tolist():
            runs.setdefault(row, []).append((first, last))
        return runs


@dataclass
class RemoveDuplicates(Pass[DedupCounts]):
    """Per part: write the remaining documents, and rejections that name the kept document."""

    units: int
    removals: RemovalTypes
    name: str = "main"

    def unit_name(self, unit: int) -> str:
        return self.removals.parts.names[unit]

    def options(self, unit: int) -> Mapping[str, Any]:
        return self.removals.options

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        return self.removals.reads(unit, known)

    def run(self, unit: int, output: Output) -> DedupCounts:
        removal = PartRemoval(self.removals, unit)
        rewritten = rewrite_part(
            output,
            self.unit_name(unit),
            self.removals.parts.find_documents(unit),
            removal.decide,
        )
        counts: DedupCounts = {**removal.counts}
        add_counts(counts, rewritten)
        return counts
