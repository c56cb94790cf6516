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
from typing import Any, ClassVar, Final, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from clozeline.checksummed_json import add_checksum
from clozeline.errors import ConfigurationError, plural
from clozeline.extensions.curation.decontaminate.config import DecontaminateConfig
from clozeline.extensions.curation.decontaminate.evaluation_items import (
    EvaluationFile,
    EvaluationItem,
    check_first_item,
    find_evaluation_files,
    list_files,
    read_items,
)
from clozeline.extensions.curation.decontaminate.ngram_index import (
    INDEX_VERSION,
    Matcher,
    NgramIndex,
    build_index,
    open_index,
    runs_of,
    write_index,
)
from clozeline.pipeline.execution.contributions import ParentFile
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.rewritten_documents import (
    REWRITE_EQUATIONS,
    RewriteCounts,
    open_documents,
    rewrite_part,
)
from clozeline.pipeline.execution.shuffle import Pieces, Shuffle
from clozeline.pipeline.execution.stages import Pass, Stage, Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import Output, add_counts
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import Rejection, read_batches
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.tables import Rejected
from clozeline.pipeline.text.normal_form import MATCH_VERSION, match_words

_LOG: Final = logging.getLogger(__name__)
_ONE: Final = "000000"
"""Name of the unit of a pass with a single unit."""
_INDEX: Final = ParentFile("decontaminate", "index", _ONE, "index.arrow", "evaluation index")
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


@dataclass(frozen=True)
class WriteIndex(Unit[DecontaminateCounts]):
    """Read the items of all evaluation files, and index their n-grams."""

    VERSION = INDEX_VERSION + MATCH_VERSION
    files: tuple[EvaluationFile, ...]
    ngram: int
    limits: InputLimits

    def run(self, inputs: UnitInputs, output: Output) -> DecontaminateCounts:
        suites: dict[str, SuiteCounts] = {}
        index = build_index(self._items(suites, inputs), self.ngram)
        with output.file(_INDEX.name) as path:
            write_index(path, index)
        full = int((index.words == self.ngram).sum())
        return {"entries": {"full": full, "short": len(index) - full}, "suites": suites}

    def _items(
        self, suites: dict[str, SuiteCounts], inputs: UnitInputs
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        for file in self.files:
            counts: SuiteCounts = {"items": 0, "unreadable": 0}
            reasons = dict[str, int]()

            for item in open_items(file, self.limits, inputs):
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


def open_items(
    file: EvaluationFile, limits: InputLimits, inputs: UnitInputs
) -> Iterator[EvaluationItem | Rejected]:
    """Yield the items of an evaluation file."""
    for path in list_files(file):
        inputs.user_file(path)
    return read_items(file, limits)


@dataclass(frozen=True)
class FindMatches(Unit[DecontaminateCounts]):
    """Look up all n-grams of the documents of a part, and store pairs of documents and entries."""

    VERSION = INDEX_VERSION + MATCH_VERSION
    part: str

    def run(self, inputs: UnitInputs, output: Output) -> DecontaminateCounts:
        matcher = Matcher(_open_stage_index(inputs))
        pairs = list[tuple[int, int]]()
        row = 0

        for batch in read_batches(open_documents(inputs, self.part), ("text", "target_text")):
            sides = zip(
                batch.column("text").to_pylist(),
                batch.column("target_text").to_pylist(),
                strict=True,
            )
            for texts in sides:
                entries = {entry for text in texts for _, entry in matcher.find(text or "")}
                pairs += [(row, entry) for entry in sorted(entries)]
                row += 1

        with output.file(_matches_file(self.part)) as path, path.open("wb") as file:
            np.save(file, np.array(pairs, np.uint32).reshape(-1, 2))
        return {}


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
class DecideMatches(Unit[DecontaminateCounts]):
    """Ignore too frequent entries, and report the overlap of items and suites."""

    VERSION = 2
    files: tuple[EvaluationFile, ...]
    decisions: Shuffle
    """matches that count, to their parts"""
    limits: InputLimits
    max_document_frequency: int

    def run(self, inputs: UnitInputs, output: Output) -> DecontaminateCounts:
        index = _open_stage_index(inputs)
        parts = self.decisions.destinations
        frequency = np.zeros(len(index), np.int64)
        for name in parts:
            frequency += np.bincount(read_matches(inputs, name)[:, 1], minlength=len(index))

        too_frequent = frequency > self.max_document_frequency
        holders: dict[str, set[tuple[int, int]]] = {}
        with self.decisions.write(output, _ONE) as pieces:
            for part, name in enumerate(parts):
                rows = read_matches(inputs, name)
                taken = rows[~too_frequent[rows[:, 1]]].tolist()
                pieces.add([json.dumps(_describe_drops(taken, index)).encode()])
                for document, entry in taken:
                    holders.setdefault(index.runs[entry].as_py(), set()).add((part, document))

        suites: dict[str, _SuiteOverlap] = {}

        for evaluation in self.files:
            suite = suites.setdefault(evaluation.suite, _SuiteOverlap())
            for item in open_items(evaluation, self.limits, inputs):
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
        return {"entries": {"too_frequent": int(too_frequent.sum())}, "suites": counts}


@dataclass(frozen=True)
class DropContaminated(Unit[DecontaminateCounts]):
    """Drop the documents of a part with matches, and write all others unchanged."""

    VERSION = INDEX_VERSION
    part: str
    decisions: Pieces
    seed: int

    def run(self, inputs: UnitInputs, output: Output) -> DecontaminateCounts:
        (_, piece), *_ = self.decisions.read(inputs, "decontaminate", self.part)
        drops = dict(json.loads(piece))

        def decide(row: int, document: Document) -> Document | Rejection:
            if row not in drops:
                return document
            return Rejection.from_document(
                document,
                stage="decontaminate",
                reason="contaminated",
                detail=drops[row],
                seed=self.seed,
            )

        documents = open_documents(inputs, self.part)
        return cast(DecontaminateCounts, rewrite_part(output, self.part, documents, decide))


def _describe_drops(matches: Sequence[Sequence[int]], index: NgramIndex) -> list[tuple[int, str]]:
    """Return row and detail of each document that is dropped.

    The detail names the first entry, in the order of the items. `matches` are sorted.
    """
    drops = []
    for row, group in groupby(matches, lambda match: match[0]):
        _, entry = next(group)
        drops.append((row, f"{index.items[entry]}: {index.runs[entry]}"))
    return drops


def _open_stage_index(inputs: UnitInputs) -> NgramIndex:
    """Return the index that the stage wrote into its folder."""
    return open_index(_INDEX.open(inputs))


def read_matches(inputs: UnitInputs, part: str) -> NDArray[np.uint32]:
    """Return the matches of a part, shape [n, 2]: document index in the part, and entry.

    Rows are sorted.
    """
    file = inputs.file("decontaminate", "matches", part, _matches_file(part))
    rows: NDArray[np.uint32] = np.load(io.BytesIO(file.buffer()))
    return rows


def _matches_file(part: str) -> str:
    return f"tmp/matches/{part}.npy"


class DecontaminateStage(Stage[DecontaminateConfig, DecontaminateCounts]):
    """Indexes items, looks up documents, decides which matches count, rewrites the parts."""

    name = "decontaminate"
    after = ("dedup",)
    before = ("train_tokenizer", "tokenizer")
    cpu_seconds_per_mb = 0.23
    needs = ("clean",)
    writes_documents = True
    parent_files: ClassVar[Mapping[str, ParentFile]] = {"encode": _INDEX}
    equations = REWRITE_EQUATIONS

    def validate(self) -> Iterator[str]:
        """Yield the faults of evaluation files that their first items show."""
        for file in find_evaluation_files(self.config.against):
            try:
                check_first_item(file, self.recipe.limits)
            except ConfigurationError as error:
                yield str(error)

    def passes(self) -> Sequence[Pass[DecontaminateCounts]]:
        config = self.config
        limits = self.recipe.limits
        parts = self.plan.names
        files = tuple(find_evaluation_files(config.against))
        decisions = Shuffle("decisions", (_ONE,), parts, "overlap")
        pieces = decisions.pieces
        decide = DecideMatches(files, decisions, limits, config.max_document_frequency)
        drops = {part: DropContaminated(part, pieces, self.recipe.seed) for part in parts}
        return [
            Pass("index", {_ONE: WriteIndex(files, config.ngram, limits)}),
            Pass("matches", {part: FindMatches(part) for part in parts}),
            Pass("overlap", {_ONE: decide}),
            Pass("main", drops),
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
