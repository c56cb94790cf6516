"""Find items of evaluation sets in the documents, and drop the documents that contain them.

The items are indexed by their 13-grams in the match form, without case and marks (GPT-3, arXiv
2005.14165, appendix C). Decisions depend on the sets of documents and items alone, not on any
order.
"""

import io
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Final, TypedDict

import numpy as np
from numpy.typing import NDArray

from clozeline.checksummed_json import add_checksum
from clozeline.configuration.config import to_data
from clozeline.errors import ConfigurationError, plural
from clozeline.pipeline.decontaminate.config import DecontaminateConfig
from clozeline.pipeline.decontaminate.evaluation_items import (
    EvaluationFile,
    EvaluationItem,
    check_first_item,
    digest_items,
    find_evaluation_files,
    read_items,
)
from clozeline.pipeline.execution.equations import EACH, Equation, StageRow
from clozeline.pipeline.execution.rewritten_documents import (
    REWRITE_EQUATIONS,
    DocumentParts,
    RewriteCounts,
    rewrite_part,
)
from clozeline.pipeline.execution.shuffle import Shuffle
from clozeline.pipeline.execution.stages import Pass, Stage
from clozeline.pipeline.execution.unit_record import KnownRecords, Output, add_counts
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import Rejection, read_batches
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.kernels.ngram_index import (
    INDEX_VERSION,
    Matcher,
    NgramIndex,
    build_index,
    open_index,
    runs_of,
    write_index,
)
from clozeline.pipeline.tasks.readers import Rejected
from clozeline.pipeline.text.normal_form import MATCH_VERSION, match_words
from clozeline.recorded_file import find_file

_LOG: Final = logging.getLogger(__name__)
_ONE: Final = "000000"
"""Name of the unit of a pass with a single unit."""
_OVERLAP_FORMAT: Final = 1


class SuiteCounts(TypedDict, total=False):
    """Counts of an evaluation suite."""

    items: int
    unreadable: int  # rows without a text: damaged or empty
    too_short: int  # items without a text of five words, which cannot be found
    words: int  # of all items that can be found
    overlap_words: int  # words of them in n-grams that documents contain
    contaminated: int  # items with an n-gram in a document
    documents: int  # documents with an n-gram of an item


class DecontaminateCounts(RewriteCounts, total=False):
    """Counts of a unit of `decontaminate`."""

    entries: dict[str, int]
    """n-grams of the index: `full` of n words, `short` of shorter texts, `too_frequent` ignored"""
    suites: dict[str, SuiteCounts]
    reported: dict[str, int]  # items by suite, counted where they are searched in matches
    compared: int  # documents that were looked up
    contaminated_documents: int  # documents with an n-gram that is not too frequent
    matches: dict[str, int]
    """pairs of documents and n-grams: `found`, `counted`, and for the decision `taken`,
    `ignored`"""


@dataclass(frozen=True)
class WriteIndex(Pass[DecontaminateCounts]):
    """A single unit: read the items of all evaluation files, and index their n-grams."""

    files: tuple[EvaluationFile, ...]
    ngram: int
    limits: InputLimits
    name: str = "index"
    units: int = 1

    def options(self, unit: int) -> Mapping[str, Any]:
        return {
            "version": INDEX_VERSION + MATCH_VERSION,
            "ngram": self.ngram,
            "limits": to_data(self.limits),
        }

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        return {"evaluation files": digest_items(self.files)}

    def run(self, unit: int, output: Output) -> DecontaminateCounts:
        suites: dict[str, SuiteCounts] = {}
        index = build_index(self._items(suites), self.ngram)
        with output.file("index.arrow") as path:
            write_index(path, index)
        full = int((index.words == self.ngram).sum())
        return {"entries": {"full": full, "short": len(index) - full}, "suites": suites}

    def _items(self, suites: dict[str, SuiteCounts]) -> Iterator[tuple[str, tuple[str, ...]]]:
        for file in self.files:
            counts: SuiteCounts = {"items": 0, "unreadable": 0}
            reasons = dict[str, int]()

            for item in read_items(file, self.limits):
                if isinstance(item, Rejected):
                    add_counts(counts, {"unreadable": 1})
                    add_counts(reasons, {item.reason: 1})
                else:
                    add_counts(counts, {"items": 1})
                    yield f"{file.suite} {item.name}", item.texts

            listed = ", ".join(
                f"{plural(count, 'row')} rejected as {reason}"
                for reason, count in sorted(reasons.items())
            )
            if listed:
                _LOG.warning(
                    "decontaminate: %s: %s: these rows have no text to search", file.path, listed
                )

            if not counts["items"]:
                raise ConfigurationError(
                    f"decontaminate.against: {file.path}: there are no evaluation items "
                    f"({listed or 'no rows'}): correct the file or its reader, or remove it from "
                    "the list"
                )

            add_counts(suites.setdefault(file.suite, {}), counts)


@dataclass(frozen=True)
class FindMatches(Pass[DecontaminateCounts]):
    """Per part: look up all n-grams of the documents, and store pairs of documents and entries."""

    units: int
    documents: DocumentParts
    folder: Path
    name: str = "matches"

    def unit_name(self, unit: int) -> str:
        return self.documents.names[unit]

    def options(self, unit: int) -> Mapping[str, Any]:
        return {"version": INDEX_VERSION + MATCH_VERSION}

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        return {
            "documents": self.documents.digest(unit, known),
            "index": known.digest(self.folder, "index", _ONE),
        }

    def run(self, unit: int, output: Output) -> DecontaminateCounts:
        matcher = Matcher(_open_stage_index(self.folder))
        pairs = list[tuple[int, int]]()
        compared = 0

        for batch in read_batches(self.documents.file(unit), ("text", "target_text")):
            sides = zip(
                batch.column("text").to_pylist(),
                batch.column("target_text").to_pylist(),
                strict=True,
            )
            for texts in sides:
                entries = {entry for text in texts for _, entry in matcher.find(text or "")}
                pairs += [(compared, entry) for entry in sorted(entries)]
                compared += 1

        name = self.unit_name(unit)
        with output.file(_matches_file(name)) as path, path.open("wb") as file:
            np.save(file, np.array(pairs, np.uint32).reshape(-1, 2))
        return {"compared": compared, "matches": {"found": len(pairs)}}


@dataclass
class _SuiteOverlap:
    """The items of a suite that documents contain, and the counts of all its items."""

    counts: SuiteCounts = field(
        default_factory=lambda: SuiteCounts(too_short=0, words=0, overlap_words=0, contaminated=0)
    )
    items: int = 0
    documents: set[tuple[int, int]] = field(default_factory=set)
    contaminated: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self,
        file: EvaluationFile,
        item: EvaluationItem,
        ngram: int,
        holders: dict[str, set[tuple[int, int]]],
    ) -> None:
        """Add an item; `holders` are the documents of each n-gram that is not too frequent."""
        self.items += 1
        documents = set[tuple[int, int]]()
        words = 0
        inside = 0
        can_be_found = False

        for text in item.texts:
            text_words = match_words(text)
            runs = runs_of(text_words, ngram)
            starts = [start for start, run in enumerate(runs) if run in holders]
            documents.update(*(holders[runs[start]] for start in starts))
            ends = [start + runs[start].count(" ") + 1 for start in starts]

            # words in overlapping n-grams count once
            spans = map(range, starts, ends)
            inside += len(set[int]().union(*spans))
            words = words + len(text_words)
            can_be_found = can_be_found or bool(runs)

        add_counts(
            self.counts,
            {
                "too_short": int(not can_be_found),
                "words": words * can_be_found,
                "overlap_words": inside,
                "contaminated": int(bool(documents)),
            },
        )

        if documents:
            self.documents |= documents
            self.contaminated.append(
                {
                    "file": file.name,
                    "row": item.row,
                    "id": item.name,
                    "documents": len(documents),
                    "overlap": round(inside / words, 6),
                }
            )

    def report(self) -> dict[str, Any]:
        """Return the entry of the suite in `overlap.json`."""
        counts: dict[str, Any] = {
            **self.counts,
            "documents": len(self.documents),
            "found": self.contaminated,
        }
        counts["items"] = self.items
        counts["overlap"] = round(counts["overlap_words"] / max(1, counts["words"]), 6)
        return counts


@dataclass(frozen=True)
class DecideMatches(Pass[DecontaminateCounts]):
    """A single unit: ignore too frequent entries, and report the overlap of items and suites."""

    files: tuple[EvaluationFile, ...]
    parts: tuple[str, ...]
    """names of the parts"""
    limits: InputLimits
    max_document_frequency: int
    folder: Path
    name: str = "overlap"
    units: int = 1

    def options(self, unit: int) -> Mapping[str, Any]:
        return {
            "version": _OVERLAP_FORMAT,
            "max_document_frequency": self.max_document_frequency,
            "parts": self.parts,
        }

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        return {
            "index": known.digest(self.folder, "index", _ONE),
            "matches": known.pass_digest(self.folder, "matches"),
        }

    def run(self, unit: int, output: Output) -> DecontaminateCounts:
        folder = output.folder
        index = _open_stage_index(output.folder)
        frequency = np.zeros(len(index), np.int64)
        counted = 0

        for name in self.parts:
            rows = read_matches(folder, name)
            frequency += np.bincount(rows[:, 1], minlength=len(index))
            counted += len(rows)

        too_frequent = frequency > self.max_document_frequency
        holders: dict[str, set[tuple[int, int]]] = {}
        ignored_matches = 0

        with decisions_of(self.parts).write(output, _ONE) as pieces:
            for part, name in enumerate(self.parts):
                rows = read_matches(folder, name)
                taken = rows[~too_frequent[rows[:, 1]]].tolist()
                ignored_matches += len(rows) - len(taken)
                pieces.add([json.dumps(_describe_drops(taken, index)).encode()])
                for document, entry in taken:
                    holders.setdefault(index.runs[entry].as_py(), set()).add((part, document))

        suites: dict[str, _SuiteOverlap] = {}

        for evaluation in self.files:
            suite = suites.setdefault(evaluation.suite, _SuiteOverlap())
            for item in read_items(evaluation, self.limits):
                if not isinstance(item, Rejected):
                    suite.add(evaluation, item, index.ngram, holders)

        ignored: list[dict[str, Any]] = [
            {"words": index.runs[entry].as_py(), "documents": int(frequency[entry])}
            for entry in np.flatnonzero(too_frequent).tolist()
        ]
        ignored.sort(key=lambda row: (-row["documents"], row["words"]))
        content = {
            "format": _OVERLAP_FORMAT,
            "ngram": index.ngram,
            "ignored": ignored,
            "suites": {name: suite.report() for name, suite in suites.items()},
        }

        with output.file("overlap.json") as path:
            text = json.dumps(add_checksum(content), sort_keys=True, ensure_ascii=False)
            path.write_text(text + "\n", encoding="utf-8")

        counts: dict[str, SuiteCounts] = {
            name: {**suite.counts, "documents": len(suite.documents)}
            for name, suite in suites.items()
        }
        return {
            "entries": {"too_frequent": int(too_frequent.sum())},
            "matches": {"counted": counted, "ignored": ignored_matches},
            "contaminated_documents": len(set().union(*holders.values())),
            "suites": counts,
            "reported": {name: suite.items for name, suite in suites.items()},
        }


@dataclass(frozen=True)
class DropContaminated(Pass[DecontaminateCounts]):
    """Per part: drop the documents with matches, and write all others unchanged."""

    units: int
    documents: DocumentParts
    folder: Path
    seed: int
    name: str = "main"

    def unit_name(self, unit: int) -> str:
        return self.documents.names[unit]

    def options(self, unit: int) -> Mapping[str, Any]:
        return {"version": INDEX_VERSION, "seed": self.seed}

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        decisions = decisions_of(self.documents.names)
        return {
            "documents": self.documents.digest(unit, known),
            "contaminated documents": decisions.digest(self.folder, known, unit),
        }

    def run(self, unit: int, output: Output) -> DecontaminateCounts:
        decisions = decisions_of(self.documents.names)
        (_, piece), *_ = decisions.read(self.folder, unit)
        drops = {row: (matches, detail) for row, matches, detail in json.loads(piece)}

        def decide(row: int, document: Document) -> Document | Rejection:
            if row not in drops:
                return document
            _, detail = drops[row]
            return Rejection.from_document(
                document,
                stage="decontaminate",
                reason="contaminated",
                detail=detail,
                seed=self.seed,
            )

        rewritten = rewrite_part(output, self.unit_name(unit), self.documents.file(unit), decide)
        taken = sum(matches for matches, _ in drops.values())
        counts: DecontaminateCounts = {"matches": {"taken": taken}}
        add_counts(counts, rewritten)
        return counts


def _describe_drops(
    matches: Sequence[Sequence[int]], index: NgramIndex
) -> list[tuple[int, int, str]]:
    """Return row, number of matches and detail of each document that is dropped.

    The detail names the first entry, in the order of the items. `matches` are sorted.
    """
    drops = []
    for row, group in groupby(matches, lambda match: match[0]):
        entries = [entry for _, entry in group]
        detail = f"{index.items[entries[0]]}: {index.runs[entries[0]]}"
        drops.append((row, len(entries), detail))
    return drops


def _open_stage_index(folder: Path) -> NgramIndex:
    """Return the index that the stage wrote into its folder."""
    return open_index(find_file(folder, f"index/{_ONE}", "index.arrow"))


def decisions_of(parts: tuple[str, ...]) -> Shuffle:
    """Return the shuffle of the matches that count, from the single unit that decides to parts."""
    return Shuffle("decisions", (_ONE,), len(parts), "overlap")


def read_matches(folder: Path, part: str) -> NDArray[np.uint32]:
    """Return the matches of a part, shape [n, 2]: document index in the part, and entry.

    Rows are sorted.
    """
    file = find_file(folder, f"matches/{part}", _matches_file(part))
    rows: NDArray[np.uint32] = np.load(io.BytesIO(file.buffer()))
    return rows


def _matches_file(part: str) -> str:
    return f"tmp/matches/{part}.npy"


class DecontaminateStage(Stage[DecontaminateConfig, DecontaminateCounts]):
    """Indexes items, looks up documents, decides which matches count, rewrites the parts."""

    name: ClassVar[str] = "decontaminate"
    cpu_seconds_per_mb: ClassVar[float] = 0.23
    needs: ClassVar[tuple[str, ...]] = ("clean",)
    writes_documents: ClassVar[bool] = True
    equations: ClassVar[tuple[Equation, ...]] = (
        *REWRITE_EQUATIONS,
        # all documents are looked up, and each document with a match is dropped
        Equation(["documents_in"], ["compared"], of_stage=True),
        Equation([("matches", "found")], [("matches", "counted")], of_stage=True),
        Equation(
            [("matches", "found")], [("matches", "taken"), ("matches", "ignored")], of_stage=True
        ),
        Equation(["contaminated_documents"], ["rejected"], of_stage=True),
        Equation([("suites", EACH, "items")], ["reported"], of_stage=True),
    )

    def validate(self) -> Iterator[str]:
        """Yield the faults of evaluation files that their first items show."""
        for file in find_evaluation_files(self.config.against):
            try:
                check_first_item(file, self.recipe.limits)
            except ConfigurationError as error:
                yield str(error)

    def passes(self) -> Sequence[Pass[DecontaminateCounts]]:
        config = self.config
        documents = self.documents
        units = len(documents)
        files = tuple(find_evaluation_files(config.against))
        return [
            WriteIndex(files, config.ngram, self.recipe.limits),
            FindMatches(units, documents, self.folder),
            DecideMatches(
                files,
                documents.names,
                self.recipe.limits,
                config.max_document_frequency,
                self.folder,
            ),
            DropContaminated(units, documents, self.folder, self.recipe.seed),
        ]

    def row(self, counts: DecontaminateCounts) -> StageRow:
        before, after = (
            plural(counts[key], "document") for key in ("documents_in", "documents_out")
        )
        unreadable = sum(suite["unreadable"] for suite in counts["suites"].values())
        row = StageRow.of(counts, self.equations, before, after)
        return replace(
            row, dropped=(*row.dropped, ("evaluation row", {"without a text": unreadable}))
        )
