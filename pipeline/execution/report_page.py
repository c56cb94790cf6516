"""Draw the page of a run: amounts, reasons, counts and sample documents of its stages.

Samples are read from at most 16 files of a stage, so a page takes the same time for any corpus.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.plan import PLAN_STAGE, read_plan
from clozeline.pipeline.execution.stages import Stage
from clozeline.pipeline.ingest.documents.files import (
    Rejection,
    read_batches,
    read_documents,
    read_rejects,
)
from clozeline.pipeline.shards import Manifest
from clozeline.report.html_page import (
    bars,
    collapsible,
    grid,
    largest,
    lead,
    listing,
    page,
    quote,
    section,
    table,
)
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
    return page("Clozeline · what happened to every document", _iter_parts(stages, reports))


def _iter_parts(stages: Sequence[Stage[Any, Any]], reports: Reports) -> Iterator[str]:
    rows = {stage.name: stage.explain_row(reports[stage.name]["counts"]) for stage in stages}
    yield lead(_outcome(rows))
    yield table(["stage", "in", "out", "cut", "time", "bytes"], _iter_amounts(rows, reports))
    notes = [(name, note) for name, row in rows.items() for note in row.notes]
    yield section("Worth knowing", table(["stage", ""], notes) if notes else "")
    cut = (
        bars(f"{name} · characters cut", largest(row.cut), row.characters)
        for name, row in rows.items()
    )
    reasons = chain.from_iterable(_iter_reasons(name, row) for name, row in rows.items())
    yield section("Dropped, and why", grid(*cut, *reasons))

    documents: Path | None = None  # folder of the documents that the next stage reads
    drops = list[str]()
    for stage in (stage for stage in stages if stage.writes_documents):
        drops += _iter_drops(stage.folder, documents)
        documents = stage.folder / "documents"
    kept = [] if documents is None else _iter_kept(documents)
    yield section("Examples of kept documents", grid(*kept))
    for stage in stages:
        yield from (section(title, content) for title, content in stage.page_sections())
    yield section("Examples of dropped documents", *drops)

    yield section("Inputs and sets", *_iter_files(stages))
    for name, report in reports.items():
        counts = sorted(_list_counts(report["counts"]))
        yield collapsible(f"All counts of {name}", table(["count", ""], counts))
    recipe = (stages[-1].folder / "config.yaml").read_text(encoding="utf-8")
    yield collapsible("Recipe", listing(recipe))
    yield f"<p class=muted>Clozeline {version('clozeline')}</p>"


def _outcome(rows: Mapping[str, StageRow]) -> str:
    """Return sentences about input and output, and about the step that cut most characters."""
    amounts = list(rows.values())
    sentences = [f"{_join(amounts[0].amount_in)} became {_join(amounts[-1].amount_out)}."]
    cutting = [(name, row) for name, row in rows.items() if row.characters]
    if cutting:
        total = cutting[0][1].characters or 0
        last = cutting[-1][1]
        left = (last.characters or 0) - sum(last.cut.values())
        share = f"{100 * left / total:.1f} %"
        sentences.append(f"{left:,} of {total:,} characters are left ({share}).")
        steps = [
            (size, f"{name} · {step}") for name, row in cutting for step, size in row.cut.items()
        ]
        size, step = max(steps, default=(0, ""))
        if size:
            sentences.append(f"{step} removed most: {size:,} characters.")
    return " ".join(sentences)


def _join(amounts: str) -> str:
    return amounts.replace("\n", ", ")


def _iter_amounts(rows: Mapping[str, StageRow], reports: Reports) -> Iterator[list[str]]:
    """Yield the amounts of each stage and its sets."""
    for name, row in rows.items():
        cost = duration(reports[name]["seconds"]), size_text(reports[name]["bytes"])
        for cells in row.amounts(name, *cost):
            yield list(map(_join, cells))


def _iter_reasons(name: str, row: StageRow) -> Iterator[str]:
    """Yield charts of the drop reasons of a stage and its sets, as shares of its input."""
    for noun, reasons in row.dropped:
        title = f"{name} · dropped {noun}s" if noun else f"{name} · noticed"
        yield bars(title, largest(reasons), row.totals.get(noun))
    for label, part in row.parts:
        yield from _iter_reasons(f"{name} · {label}", part)


def _list_counts(counts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yield every count with the path of its name."""
    for name, value in counts.items():
        if isinstance(value, Mapping):
            yield from _list_counts(value, f"{prefix}{name} · ")
        else:
            yield f"{prefix}{name}", value


def _iter_drops(folder: Path, earlier: Path | None) -> Iterator[str]:
    """Yield sample texts of rejected documents for each reason."""
    chosen: dict[str, list[tuple[bool, bytes, str, Rejection]]] = {}
    for path in _sample_files(folder / "rejects"):
        for reject in read_rejects(path):
            entries = chosen.setdefault(reject.reason, [])
            entries.append((reject.sample_text is None, reject.uid, path.name, reject))
            entries.sort(key=lambda entry: entry[:3])
            del entries[_MOST_TEXTS:]

    for reason, entries in sorted(chosen.items()):
        texts = list[str]()
        for _, uid, name, reject in entries:
            text = reject.sample_text or ""
            if not text and earlier is not None and (earlier / name).exists():
                text = _find_text(earlier / name, uid)
            size = f"{reject.n_chars:,} characters"
            origin = (f"{reject.source} at {reject.offset:,}", size, reject.detail)
            shown = _cut(text) or "The text was not stored: see clean.keep_text."
            texts.append(quote(shown, " · ".join(filter(None, origin))))
        yield collapsible(f"{folder.name} · {reason}", grid(*texts))


def _iter_kept(folder: Path) -> Iterator[str]:
    """Yield the documents with the smallest uids, a random sample of the first ones of files."""
    documents = chain.from_iterable(
        islice(read_documents(path), _MOST_READ) for path in _sample_files(folder)
    )
    for document in heapq.nsmallest(_MOST_TEXTS, documents, key=lambda each: each.uid):
        origin = document.url or f"{document.source} at {document.offset:,}"
        yield quote(_cut(document.text), origin)


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


def _iter_files(stages: Sequence[Stage[Any, Any]]) -> Iterator[str]:
    """Yield a table of inputs, and a table of shard sets with their parents."""
    plan = stages[0].recipe.folder(PLAN_STAGE) / "plan.json"
    if plan.exists():  # else another run wrote the documents
        inputs = read_plan(plan)["inputs"]
        rows = [(each["source"], each["reader"], size_text(each["bytes"])) for each in inputs]
        if others := rows[_MOST_LISTED_INPUTS:]:
            size = sum(each["bytes"] for each in inputs[_MOST_LISTED_INPUTS:])
            rows = [*rows[:_MOST_LISTED_INPUTS], (f"{len(others):,} others", "", size_text(size))]
        yield f"<h3>Inputs</h3>{table(['source', 'reader', 'size'], rows)}"

    paths = [path for stage in stages for path in sorted(stage.folder.rglob("manifest.json"))]
    output = stages[0].recipe.output_folder
    manifests = {path.parent.relative_to(output).as_posix(): Manifest.load(path) for path in paths}
    names = {manifest.digest: name for name, manifest in manifests.items()}
    sets = []
    for name, manifest in manifests.items():
        totals = manifest.totals
        parents = ", ".join(names.get(each.digest, each.name) for each in manifest.parents)
        amounts = (totals.samples, totals.tokens, totals.shards, size_text(totals.bytes))
        sets.append((name, *amounts, manifest.checksum[:16], parents))
    if sets:
        amount_names = ["rows", "tokens", "shards", "size"]
        header = ["set", *amount_names, "checksum of the manifest", "made from"]
        yield f"<h3>Shard sets</h3>{table(header, sets)}"
