"""Write and read the reports of a run: `report.json` per stage and per run, and `report.html`.

The page shows amounts, drop reasons and sample documents. Samples are read from at most 16 files of
a stage, so a report takes the same time for any corpus.
"""

import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeAlias

from clozeline.checksummed_json import add_checksum, verify_checksum
from clozeline.errors import IntegrityError, StorageError, plural
from clozeline.files import parse_json, publish_json, publish_text, read_json
from clozeline.pipeline.execution.arguments import OPTIONS
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.plan import PLAN_STAGE, read_plan
from clozeline.pipeline.execution.report_samples import sample_files, sample_kept, sample_rejects
from clozeline.pipeline.execution.stages import Stage, stage_of
from clozeline.pipeline.execution.unit_record import StageCounts, UnitRecord, options_path
from clozeline.pipeline.ingest.documents.files import (
    Rejection,
    read_malformed,
)
from clozeline.pipeline.recipe import Recipe
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

REPORT_FORMAT: Final = 1
"""Format number of every `report.json`; raised when a key changes its meaning."""
Reports: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Contents of `report.json` by stage, in running order."""

# Most malformed records that are shown per reason.
_MOST_SHOWN_RECORDS: Final = 20
# Most inputs that are listed by name.
_MOST_LISTED_INPUTS: Final = 50
# Most different options of the units of a pass that a report lists.
_MOST_OPTIONS: Final = 16
# Nouns by which the first sentence counts the output, by stage.
_OUTPUT_NOUNS: Final = {"encode": "tokens", "corrupt": "examples", "tasks": "examples"}


def write_stage_report(
    stage: Stage[Any, StageCounts],
    counts: StageCounts,
    records: Sequence[UnitRecord],
    seconds: float,
) -> None:
    """Write `report.json` of a stage, with the versions and options that decided its output."""
    size = sum(file["bytes"] for record in records for file in record.outputs.values())
    passes: dict[str, list[UnitRecord]] = {}
    for record in records:
        passes.setdefault(record.pass_name, []).append(record)
    listed = {name: _describe_pass(stage.folder, each) for name, each in passes.items()}
    decided = {"passes": listed, "packages": _package_versions()}

    content = {
        "format": REPORT_FORMAT,
        "stage": stage.name,
        "counts": counts,
        "made": time_made(records),
        "units": len(records),
        "bytes": size,
        "seconds": round(seconds, 3),
        "deciders": decided,
    }

    publish_json(stage.folder / "report.json", add_checksum(content))


def time_made(records: Iterable[UnitRecord]) -> str:
    """Return the sum of the times when units were made, which tells whether all are the same."""
    return str(sum(record.made for record in records))


def _describe_pass(folder: Path, records: Sequence[UnitRecord]) -> dict[str, Any]:
    """Return the arguments that all units of a pass share, and their different options."""
    first = records[0].arguments
    shared = {
        name: value
        for name, value in first.items()
        if all(record.arguments.get(name) == value for record in records)
    }
    digests = sorted({record.arguments.get(OPTIONS, "") for record in records} - {""})
    options = [read_json(options_path(folder, digest)) for digest in digests[:_MOST_OPTIONS]]
    return {**shared, OPTIONS: options}


def read_report(path: Path, remedy: str) -> dict[str, Any]:
    """Return the content of a `report.json`; messages end with `remedy`, which writes it again."""
    try:
        data = verify_checksum(parse_json(path.read_text(encoding="utf-8")), path, REPORT_FORMAT)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}; {remedy}") from error
    except (ValueError, AttributeError) as error:
        raise IntegrityError(f"{path}: damaged: {error}; {remedy}") from error
    return data


def earlier_report(path: Path) -> dict[str, Any]:
    """Return the content of a `report.json`, empty if it is missing or damaged.

    Raises:
        NewerFormatError: a newer version wrote it.
    """
    try:
        return read_report(path, "")
    except (IntegrityError, StorageError):
        return {}


@cache
def _package_versions() -> dict[str, str]:
    """Return the versions of Python, Clozeline and its installed dependencies."""
    names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in requires("clozeline") or []]
    versions = {"python": platform.python_version(), "clozeline": version("clozeline")}
    for name in sorted(set(names)):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # an extra that is not installed
            continue
    return versions


def write_run_report(recipe: Recipe, names: Sequence[str]) -> Path:
    """Write `report.html` and `report.json` of a run if they changed; return the page.

    `names` are its complete stages, in order. A stage that was killed before it wrote its report is
    omitted.
    """
    path = recipe.output_folder / "report.html"
    summary = recipe.output_folder / "report.json"
    stages = [
        stage_of(recipe, name) for name in names if (recipe.folder(name) / "report.json").is_file()
    ]
    reports = {
        stage.name: read_report(
            stage.folder / "report.json", f"run `clozeline {stage.name}` again, which writes it"
        )
        for stage in stages
    }

    known = earlier_report(summary).get("stages", {})
    if not path.exists() or any(known.get(name) != report for name, report in reports.items()):
        publish_text(
            path, page("Clozeline · what happened to every document", _iter_parts(stages, reports))
        )
        publish_json(summary, add_checksum({"format": REPORT_FORMAT, "stages": reports}))

    return path


def _iter_parts(stages: Sequence[Stage[Any, Any]], reports: Reports) -> Iterator[str]:
    plan = stages[0].recipe.folder(PLAN_STAGE) / "plan.json"
    # without a plan, another run wrote the documents
    inputs = read_plan(plan)["inputs"] if plan.exists() else []
    rows = {stage.name: stage.explain_row(reports[stage.name]["counts"]) for stage in stages}

    # amounts, notes and drop reasons
    yield lead(_outcome(stages, rows, reports))
    yield table(
        ["stage", "in", "out", "cut", "units", "written", "time"], _iter_amounts(rows, reports)
    )
    notes = [(name, note) for name, row in rows.items() for note in row.notes]
    yield section("Worth knowing", table(["stage", ""], notes) if notes else "")
    cut = (
        bars(f"{name} · characters cut", largest(row.cut), row.characters)
        for name, row in rows.items()
    )
    reasons = chain.from_iterable(_iter_reasons(name, row) for name, row in rows.items())
    yield section("Dropped, and why", grid(*cut, *reasons))
    suites = [
        suite for report in reports.values() for suite in report["counts"].get("suites", {}).items()
    ]
    if suites:
        rows_of_suites = [(name, *counts.values()) for name, counts in sorted(suites)]
        yield section("Contamination", table(["evaluation suite", *suites[0][1]], rows_of_suites))

    yield section("Languages", _language_table(reports))
    if any(each["counts"].get("unknown_reasons") for each in reports.values()):
        yield section("Text that became unknown tokens", *_iter_unknown(reports))

    # samples of kept and dropped documents
    documents: Path | None = None  # folder of the documents that the next stage reads
    drops = list[str]()
    kept = ""
    for stage in (stage for stage in stages if stage.writes_documents):
        drops += _iter_drops(stage.folder, reports[stage.name]["counts"], documents)
        documents = stage.folder / "documents"

    if documents is not None:
        samples = sample_kept(sample_files(documents))
        kept = grid(*(quote(text, origin) for text, origin in samples))

    yield section("Examples of kept documents", kept)
    for stage in stages:
        yield from (section(title, content) for title, content in stage.page_sections())
    yield section("Examples of dropped documents", *drops)

    # inputs, counts and the recipe
    yield section("Inputs and sets", *_iter_files(inputs, stages))

    for name, report in reports.items():
        yield collapsible(
            f"All counts of {name}", table(["count", ""], sorted(_leaves(report["counts"])))
        )

    yield collapsible(
        "Recipe", listing((stages[-1].folder / "config.yaml").read_text(encoding="utf-8"))
    )
    yield f"<p class=muted>Clozeline {version('clozeline')}</p>"


def _outcome(
    stages: Sequence[Stage[Any, Any]], rows: Mapping[str, StageRow], reports: Reports
) -> str:
    """Return sentences about the kept characters and documents, and the step that removed most."""
    counts = {name: report["counts"] for name, report in reports.items()}
    taken = next((each["documents_in"] for each in counts.values() if "documents_in" in each), 0)
    written = [counts[stage.name]["documents_out"] for stage in stages if stage.writes_documents]
    outputs = [(counts.get(name, {}).get(noun, 0), noun) for name, noun in _OUTPUT_NOUNS.items()]
    made = " and ".join(f"{number:,} {noun}" for number, noun in outputs if number)
    if not written:
        return f"The run wrote {made}." if made else ""

    left = f"{written[-1]:,} of {plural(taken, 'document')}"
    cutting = [(name, row) for name, row in rows.items() if row.characters]
    if cutting:
        total = cutting[0][1].characters or 0
        last = cutting[-1][1]
        remaining = (last.characters or 0) - sum(last.cut.values())
        share = f"{100 * remaining / max(1, total):.1f} %"
        left = f"{remaining:,} of {total:,} characters are left ({share}), in {left}"
    else:
        left = f"{left} are left"

    steps = [(size, f"{name} · {step}") for name, row in cutting for step, size in row.cut.items()]
    most = max(steps, default=None)
    sentences = [left + (f", as {made}." if made else ".")]
    if most is not None and most[0] > 0:
        sentences.append(f"{most[1]} removed most: {most[0]:,} characters.")
    for name, row in rows.items():
        for noun, reasons in row.dropped if name == "group" else ():
            sentences += [
                f"{count:,} {noun}s are {reason}." for reason, count in reasons.items() if count
            ]

    return " ".join(sentences)


def _iter_amounts(rows: Mapping[str, StageRow], reports: Reports) -> Iterator[tuple[str, ...]]:
    """Yield the amounts of each stage, followed by the amounts of its sets."""
    for name, row in rows.items():
        report = reports[name]
        cost = (f"{report['units']:,}", size_text(report["bytes"]), duration(report["seconds"]))
        yield name, *_amounts(row), row.cut_share, *cost
        for label, part in row.parts:
            yield f"· {label}", *_amounts(part), "", "", "", ""


def _amounts(row: StageRow) -> tuple[str, str]:
    return row.amount_in.replace("\n", ", "), row.amount_out.replace("\n", ", ")


def _iter_reasons(name: str, row: StageRow) -> Iterator[str]:
    """Yield charts of the drop reasons of a stage and its sets, as shares of its input.

    Reasons without a total are a table.
    """
    for noun, reasons in row.dropped:
        title = f"{name} · dropped {noun}s" if noun else f"{name} · noticed"
        counts = largest(reasons)
        if row.totals.get(noun):
            yield bars(title, counts, row.totals[noun])
        elif counts:
            yield table([title, ""], counts.items())
    for label, part in row.parts:
        yield from _iter_reasons(f"{name} · {label}", part)


def _language_table(reports: Reports) -> str:
    """Return a table of documents, tokens and token lengths per language."""
    clean, encode = (reports.get(name, {}).get("counts", {}) for name in ("clean", "encode"))
    documents = clean.get("languages", {})
    texts = encode.get("text_by_language", {})
    tokens: Mapping[str, int] = encode.get("tokens_by_language", {})
    rows = []

    for name in sorted(
        {*documents, *tokens},
        key=lambda name: (-tokens.get(name, 0), -documents.get(name, 0), name),
    ):
        text = {"words": 0, "characters": 0, "sentences": 0} | texts.get(name, {})
        count = tokens.get(name, 0)
        per_word = f"{count / max(1, text['words']):.2f}"
        per_token = f"{text['characters'] / max(1, count):.2f}"
        per_sentence = f"{count / max(1, text['sentences']):.1f}"
        rows.append((name, documents.get(name, 0), count, per_word, per_token, per_sentence))

    header = [
        "language",
        "documents cleaned",
        "tokens",
        "tokens per word",
        "characters per token",
        "tokens per sentence",
    ]
    return table(header, rows) if rows else ""


def _iter_unknown(reports: Reports) -> Iterator[str]:
    """Yield tables of unknown characters per language, and of the reasons."""
    for name, report in reports.items():
        counts = report["counts"]
        languages = []

        for language, text in sorted(counts.get("unknown_text", {}).items()):
            share = text["unknown_characters"] / max(1, text["characters"])
            amounts = (
                text["unknown_characters"],
                text["characters"],
                f"{100 * share:.3g} %",
                text["unknown_tokens"],
            )
            languages.append((f"{name} · {language}", *amounts))

        examples = counts.get("unknown_examples", {})
        reasons = [
            (reason, characters, " ".join(examples.get(reason, {})))
            for reason, characters in sorted(counts.get("unknown_reasons", {}).items())
        ]
        if reasons:
            header = ["language", "unknown characters", "of characters", "share", "unknown tokens"]
            yield table(header, languages) + table(["reason", "characters", "for example"], reasons)


def _iter_drops(folder: Path, counts: Mapping[str, Any], earlier: Path | None) -> Iterator[str]:
    """Yield sample texts of rejected documents and a list of malformed records, per reason."""
    files = sample_files(folder / "rejects")
    for reason, samples in sorted(sample_rejects(files, earlier).items()):
        title = (
            f"{folder.name} · {reason} · documents: {counts.get('rejected', {}).get(reason, 0):,}"
        )
        texts = (
            quote(text or "The text was not stored: see clean.keep_text.", origin)
            for text, origin in samples
        )
        yield collapsible(title, grid(*texts))

    malformed: dict[str, list[Rejection]] = {}
    for record in (record for file in files for record in read_malformed(file)):
        malformed.setdefault(record.reason, []).append(record)
    for reason, records in sorted(malformed.items()):
        title = (
            f"{folder.name} · {reason} · malformed records: "
            f"{counts.get('malformed', {}).get(reason, 0):,}"
        )
        rows = [(each.source, each.offset, each.detail) for each in records[:_MOST_SHOWN_RECORDS]]
        yield collapsible(title, table(["source", "offset", "what is wrong"], rows))


def _iter_files(
    inputs: Sequence[Mapping[str, Any]], stages: Sequence[Stage[Any, Any]]
) -> Iterator[str]:
    """Yield a table of inputs, and a table of shard sets with their parents."""
    rows = [
        (file["source"], file["reader"], size_text(file["bytes"]))
        for file in inputs[:_MOST_LISTED_INPUTS]
    ]

    if others := inputs[_MOST_LISTED_INPUTS:]:
        rows.append(
            (f"{len(others):,} others", "", size_text(sum(file["bytes"] for file in others)))
        )

    if rows:
        yield f"<h3>Inputs</h3>{table(['source', 'reader', 'size'], rows)}"

    paths = [path for stage in stages for path in sorted(stage.folder.rglob("manifest.json"))]
    manifests = {
        path.parent.relative_to(stages[0].folder.parent).as_posix(): Manifest.load(path)
        for path in paths
    }
    by_digest = {manifest.digest: name for name, manifest in manifests.items()}
    sets = []

    for name, manifest in manifests.items():
        totals = manifest.totals
        parents = (by_digest.get(each.digest, each.name) for each in manifest.parents)
        amounts = (totals.samples, totals.tokens, totals.shards, size_text(totals.bytes))
        sets.append((name, *amounts, manifest.checksum[:16], ", ".join(parents)))

    if sets:
        header = [
            "set",
            "rows",
            "tokens",
            "shards",
            "size",
            "checksum of the manifest",
            "made from",
        ]
        yield f"<h3>Shard sets</h3>{table(header, sets)}"


def _leaves(counts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, int]]:
    for name, value in counts.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name} · ")
        else:
            yield f"{prefix}{name}", value
