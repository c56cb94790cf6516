"""Draw the page of a run: amounts, reasons, counts and sample documents of its stages.

Samples are read from at most 16 files of a stage, so a page takes the same time for any corpus.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from clozeline.configuration.config import flatten
from clozeline.errors import plural, share_text
from clozeline.files import read_text
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.plan import PLAN_STAGE, read_plan
from clozeline.pipeline.execution.stages import Stage
from clozeline.pipeline.ingest.documents.files import (
    Rejection,
    read_batches,
    read_documents,
    read_rejects,
)
from clozeline.report.charts import short
from clozeline.report.html_page import page
from clozeline.report.views import Bars, Part, Passage, Section, Table
from clozeline.terminal import duration, size_text

Reports: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Contents of `report.json` by stage, in running order."""
_MOST_LISTED_INPUTS: Final = 50
"""Most inputs that are listed by name."""
_MOST_FILES: Final = 16
"""Most files of a stage from which samples are read."""
_MOST_READ: Final = 512
"""Most documents of a file from which samples of kept ones are drawn."""
_MOST_TEXTS: Final = 3
"""Most texts of a reason, and of kept documents."""
_MOST_CHARACTERS: Final = 400


def run_page(stages: Sequence[Stage[Any, Any]], reports: Reports) -> str:
    """Return the page of the complete stages of a run."""
    recipe = stages[-1].recipe
    title = f"{recipe.corpus}: what happened to every document · {date.today():%d %B %Y}"
    return page(Section(title, [*_iter_parts(stages, reports)]))


def accounting(stages: Iterable[tuple[str, StageRow, float, int]]) -> Table:
    """Return the amounts of stages and their sets, given name, row, seconds and bytes of each."""
    amounts = list[tuple[str, ...]]()
    for name, row, seconds, size in stages:
        amounts += row.amounts(name, duration(seconds), size_text(size))
    return Table("", ("stage", "in", "out", "cut", "time", "bytes"), amounts)


def source_table(rows: Iterable[StageRow]) -> Table:
    """Return what the stages have counted of each source; empty for one source.

    Large numbers are short, so that a terminal shows all columns.
    """
    columns = {title: cells for row in rows for title, cells in row.sources.items() if cells}
    names = sorted(set[str]().union(*columns.values()))
    lines = [
        (name, *(short(cells[name]) if name in cells else "–" for cells in columns.values()))
        for name in names
    ]
    title = "Documents, tokens and shares in % by source"
    return Table(title, ("source", *columns), lines if len(lines) > 1 else ())


def _iter_parts(stages: Sequence[Stage[Any, Any]], reports: Reports) -> Iterator[Part]:
    rows = {stage.name: stage.explain_row(reports[stage.name]["counts"]) for stage in stages}
    yield _summarize(rows.values(), [each["counts"] for each in reports.values()])
    costs = ((reports[name]["seconds"], reports[name]["bytes"]) for name in rows)
    yield source_table(rows.values())
    stages_costs = zip(rows.items(), costs, strict=True)
    yield Section("Stages", [accounting((*row, *cost) for row, cost in stages_costs)])
    notes = [(name, note) for name, row in rows.items() for note in row.remarks()]
    yield Section("Worth knowing", [Table("", ("stage", ""), notes)])
    cut = [Bars(f"{name} · characters cut", row.cut, row.characters) for name, row in rows.items()]
    reasons = chain.from_iterable(_iter_reasons(name, row) for name, row in rows.items())
    yield Section("Dropped, and why", [*cut, *reasons], is_row=True)

    documents: Path | None = None  # folder of the documents that the next stage reads
    drops = list[Section]()
    for stage in (stage for stage in stages if stage.writes_documents):
        drops += _iter_drops(stage.folder, documents)
        documents = stage.folder / "documents"
    kept = [] if documents is None else [*_iter_kept(documents)]
    yield Section("Examples of kept documents", kept, is_row=True)
    for stage in stages:
        yield from stage.page_sections()
    yield Section("Examples of dropped documents", drops)

    inputs = _list_inputs(stages[0].recipe.folder(PLAN_STAGE) / "plan.json")
    yield Section("Inputs", inputs, is_folded=True)
    for name, report in reports.items():
        counts = Table("", ("count", ""), sorted(flatten(report["counts"]).items()))
        yield Section(f"All counts of {name}", [counts], is_folded=True)
    recipe = read_text(stages[-1].folder / "config.yaml")
    yield Section("Recipe", [Passage.of(recipe, role="code")], is_folded=True)
    yield f"Clozeline {version('clozeline')}"


def _summarize(rows: Iterable[StageRow], counts: Sequence[Mapping[str, Any]]) -> str:
    """Return how many documents remain, and what took the others; "" if none were read."""
    kept = [each["documents_out"] for each in counts if "documents_out" in each]
    if not kept:
        return ""
    total = next(each["documents_in"] for each in counts if "documents_in" in each)
    reasons = chain.from_iterable(row.iter_reasons() for row in rows)
    dropped = chain.from_iterable(named for noun, named in reasons if noun == "document")
    share = kept[-1] / max(1, total)
    return (
        f"Of {plural(total, 'document')}, {kept[-1]:,} ({share_text(share)}) remain. Dropped: "
        f"{', '.join(dropped) or 'none'}."
    )


def _iter_reasons(name: str, row: StageRow) -> Iterator[Bars]:
    """Yield charts of the drop reasons of a stage and its sets, as shares of its input."""
    for noun, reasons in row.dropped:
        if noun:
            yield Bars(f"{name} · dropped {noun}s", reasons, row.totals.get(noun))
    for label, part in row.parts:
        yield from _iter_reasons(f"{name} · {label}", part)


def _iter_drops(folder: Path, earlier: Path | None) -> Iterator[Section]:
    """Yield sample texts of rejected documents for each reason."""
    chosen: dict[str, list[tuple[bool, bytes, str, Rejection]]] = {}
    for path in _sample_files(folder / "rejects"):
        for reject in read_rejects(path):
            entries = chosen.setdefault(reject.reason, [])
            entries.append((reject.sample_text is None, reject.uid, path.name, reject))
            entries.sort(key=lambda entry: entry[:3])
            del entries[_MOST_TEXTS:]

    for reason, entries in sorted(chosen.items()):
        texts = list[Passage]()
        for _, uid, name, reject in entries:
            text = reject.sample_text or ""
            if not text and earlier is not None and (earlier / name).exists():
                text = _find_text(earlier / name, uid)
            size = f"{reject.n_chars:,} characters"
            origin = (f"{reject.source} at {reject.offset:,}", size, reject.detail)
            shown = _cut(text) or "The text was not stored: see clean.keep_text."
            texts.append(Passage.of(shown, " · ".join(filter(None, origin))))
        yield Section(f"{folder.name} · {reason}", texts, is_folded=True, is_row=True)


def _iter_kept(folder: Path) -> Iterator[Passage]:
    """Yield the documents with the smallest uids, a random sample of the first ones of files."""
    documents = chain.from_iterable(
        islice(read_documents(path), _MOST_READ) for path in _sample_files(folder)
    )
    for document in heapq.nsmallest(_MOST_TEXTS, documents, key=lambda each: each.uid):
        origin = document.url or f"{document.source} at {document.offset:,}"
        yield Passage.of(_cut(document.text), origin)


def _sample_files(folder: Path) -> list[Path]:
    """Return Arrow files of a folder, evenly sampled if there are many."""
    paths = sorted(folder.glob("*.arrow"))
    return paths[:: -(-len(paths) // _MOST_FILES) or 1]


def _find_text(path: Path, uid: bytes) -> str:
    """Return the text of a document; "" if the file does not hold it."""
    for batch in read_batches(path, ("uid", "text")):
        uids = batch.column("uid")
        if (row := uids.index(pa.scalar(uid, uids.type)).as_py()) >= 0:
            return str(batch.column("text")[row])
    return ""


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS].rstrip()} …"


def _list_inputs(plan: Path) -> list[Table]:
    """Return a table of the inputs; none if another run wrote the documents."""
    if not plan.exists():
        return []
    inputs = read_plan(plan)["inputs"]
    rows = [(each["source"], each["reader"], size_text(each["bytes"])) for each in inputs]
    size = size_text(sum(each["bytes"] for each in inputs[_MOST_LISTED_INPUTS:]))
    table = Table("", ("source", "reader", "size"), rows)
    return [table.shorten(_MOST_LISTED_INPUTS, f", {size}")]
