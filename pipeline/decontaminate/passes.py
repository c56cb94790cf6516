"""Passes of `decontaminate`: index the items, look documents up, decide which matches count, rewrite the parts."""

import io
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clozeline.errors import ConfigurationError
from clozeline.pipeline.decontaminate.counts import DecontaminateCounts, SuiteCounts
from clozeline.pipeline.decontaminate.evaluation_items import EvaluationFile, read_items
from clozeline.pipeline.decontaminate.overlap import CLEAN_FILE, OVERLAP_FILE, Overlap
from clozeline.pipeline.execution.stages import Pass, amount
from clozeline.pipeline.execution.unit_record import Output, add_counts, require_equal
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import (
    Rejection,
    documents_of,
    read_batches,
    read_documents,
    write_documents,
    write_rejects,
)
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.kernels.ngram_index import (
    INDEX_FILE,
    Item,
    Matcher,
    NgramIndex,
    build_index,
    open_index,
    write_index,
)
from clozeline.pipeline.tasks.readers import Rejected
from clozeline.recorded_file import RecordedFile, find_file

_LOG: Final = logging.getLogger(__name__)
_TOO_FREQUENT: Final = "tmp/too-frequent.npy"
Matches = NDArray[np.uint32]
"""Rows (index of a document in its part, entry), sorted, shape [n, 2]."""


@dataclass(frozen=True)
class WriteIndex(Pass[DecontaminateCounts]):
    """A single unit: read the items of all evaluation files and write their index."""

    files: tuple[EvaluationFile, ...]
    ngram: int
    limits: Limits
    name: str = "index"
    units: int = 1

    def run(self, unit: int, output: Output) -> DecontaminateCounts:
        suites: dict[str, SuiteCounts] = {}
        index = build_index(self._items(suites), self.ngram)
        read = sum(counts["items"] for counts in suites.values())
        require_equal("decontaminate: index", "items read", read, "items", len(index.item_rows))
        with output.file(INDEX_FILE) as path:
            write_index(path, index)
        return {"entries": {"full": index.full, "short": len(index) - index.full}, "suites": suites}

    def _items(self, suites: dict[str, SuiteCounts]) -> Iterator[tuple[int, Item]]:
        for number, file in enumerate(self.files):
            counts: SuiteCounts = {"items": 0, "unreadable": 0}
            reasons = dict[str, int]()
            for item in read_items(file, self.limits):
                if isinstance(item, Rejected):
                    counts["unreadable"] += 1
                    reasons[item.reason] = reasons.get(item.reason, 0) + 1
                else:
                    counts["items"] += 1
                    yield number, item
            listed = ", ".join(
                f"{amount(count, 'row')} rejected as {reason}" for reason, count in sorted(reasons.items())
            )
            if listed:
                _LOG.warning("decontaminate: %s: %s: without a text to look for", file.path, listed)
            if not counts["items"]:
                raise ConfigurationError(
                    f"decontaminate.against: {file.path}: expected evaluation items, got none ({listed or 'no rows'}): "
                    "correct the file or its reader, or remove it from the list"
                )
            add_counts(suites.setdefault(file.suite, {}), counts)


@dataclass(frozen=True)
class FindMatches(Pass[DecontaminateCounts]):
    """Per part: look up all runs of words of the documents, and keep the pairs of documents and entries."""

    units: int
    documents: Path
    folder: Path
    name: str = "matches"

    def run(self, unit: int, output: Output) -> DecontaminateCounts:
        matcher = Matcher(open_index(index_file(self.folder)))
        matches, compared = [np.empty((0, 2), np.uint32)], 0
        for batch in read_batches(documents_of(self.documents, unit), ("text", "target_text")):
            # the texts, and the other sides of pairs
            others = batch.column("target_text").is_valid().to_numpy(zero_copy_only=False).nonzero()[0]
            owners = np.concatenate((np.arange(len(batch)), others)).tolist()
            texts = pa.concat_arrays([batch.column("text"), batch.column("target_text").drop_null()])
            pairs = {(compared + owners[text], entry) for text, _, entry in matcher.find(texts)}
            matches.append(np.array(sorted(pairs), np.uint32).reshape(-1, 2))
            compared += len(batch)
        rows = np.concatenate(matches)
        with output.file(_matches_name(unit)) as path, path.open("wb") as file:
            np.save(file, rows)
        return {"compared": compared, "matches": {"found": len(rows)}}


@dataclass(frozen=True)
class DecideMatches(Pass[DecontaminateCounts]):
    """A single unit: ignore entries of too many documents, and report the overlap of each item and suite."""

    files: tuple[EvaluationFile, ...]
    parts: int
    max_document_frequency: int
    name: str = "overlap"
    units: int = 1

    def run(self, unit: int, output: Output) -> DecontaminateCounts:
        folder = output.folder
        index = open_index(index_file(folder))
        frequency, counted = np.zeros(len(index), np.int64), 0
        for part in range(self.parts):
            rows = read_matches(folder, part)
            frequency += np.bincount(rows[:, 1], minlength=len(index))
            counted += len(rows)
        too_frequent = frequency > self.max_document_frequency
        with output.file(_TOO_FREQUENT) as path, path.open("wb") as file:
            np.save(file, too_frequent)
        overlap = Overlap(index, self.files, (frequency > 0) & ~too_frequent)
        for part in range(self.parts):
            overlap.add(read_matches(folder, part))
        with output.file(OVERLAP_FILE) as path:
            overlap.write_overlap(path, frequency, too_frequent)
        with output.file(CLEAN_FILE) as path:
            overlap.write_clean_items(path)
        return {
            "entries": {"too_frequent": int(too_frequent.sum())}, "matches": {"counted": counted},
            "contaminated_documents": overlap.documents, "suites": overlap.suite_counts(),
        }  # fmt: skip


@dataclass(frozen=True)
class Apply(Pass[DecontaminateCounts]):
    """Per part: drop the documents with matches, and write all others as they are."""

    units: int
    documents: Path
    folder: Path
    files: tuple[EvaluationFile, ...]
    seed: int
    name: str = "main"

    def run(self, unit: int, output: Output) -> DecontaminateCounts:
        rows = read_matches(self.folder, unit)
        ignored = np.load(io.BytesIO(find_file(self.folder, "overlap-000000", _TOO_FREQUENT).buffer()))
        entries: dict[int, list[int]] = {}
        for document, entry in rows[~ignored[rows[:, 1]]].tolist():
            entries.setdefault(document, []).append(entry)
        index = open_index(index_file(self.folder))
        counts: DecontaminateCounts = {
            "documents_in": 0, "documents_out": 0, "characters_in": 0, "characters_out": 0, "rejected": {},
            "characters_removed": {},
            "matches": {"taken": sum(map(len, entries.values())), "ignored": int(ignored[rows[:, 1]].sum())},
        }  # fmt: skip
        rejections = list[Rejection]()

        def kept_documents() -> Iterator[Document]:
            for row, document in enumerate(read_documents(documents_of(self.documents, unit))):
                characters = document.characters
                add_counts(counts, {"documents_in": 1, "characters_in": characters})
                if row not in entries:
                    add_counts(counts, {"documents_out": 1, "characters_out": characters})
                    yield document
                    continue
                rejections.append(
                    Rejection.of(document, stage="decontaminate", reason="contaminated",
                                 detail=self._describe(index, entries[row]), seed=self.seed)
                )  # fmt: skip
                add_counts(
                    counts, {"rejected": {"contaminated": 1}, "characters_removed": {"contaminated": characters}}
                )

        with output.file(f"documents/{unit:06d}.arrow") as path:
            kept = write_documents(path, kept_documents())
        with output.file(f"rejects/{unit:06d}.arrow") as path:
            rejected = write_rejects(path, rejections)
        where = f"decontaminate: part {unit}"
        require_equal(where, "documents_out", counts["documents_out"], "documents written", kept)
        require_equal(where, "rejected", sum(counts["rejected"].values()), "rejections written", rejected)
        return counts

    def _describe(self, index: NgramIndex, entries: Iterable[int]) -> str:
        """Return the suite and name of the first item that holds one of the entries, and the words of that entry."""
        entry = min(entries, key=lambda entry: (index.items_of(entry)[0], index.positions[entry]))
        item = int(index.items_of(entry)[0])
        return f"{self.files[index.item_files[item]].suite} {index.item_names[item]}: {index.entry(entry)}"


def index_file(folder: Path) -> RecordedFile:
    """Return the index that the stage wrote into its folder."""
    return find_file(folder, "index-000000", INDEX_FILE)


def read_matches(folder: Path, part: int) -> Matches:
    """Return the matches of a part."""
    rows: Matches = np.load(io.BytesIO(find_file(folder, f"matches-{part:06d}", _matches_name(part)).buffer()))
    return rows


def _matches_name(part: int) -> str:
    return f"tmp/matches/{part:06d}.npy"
