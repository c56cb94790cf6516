"""Write the report of a run: `report.json` and the page `report.html`."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from clozeline.files import publish_json, publish_text
from clozeline.pipeline.execution.plan import PLAN_STAGE, read_plan
from clozeline.pipeline.execution.report_origins import (
    iter_deciders,
    iter_fertility,
    iter_slowest,
    list_provenance,
    read_manifests,
    way_back,
)
from clozeline.pipeline.execution.report_samples import (
    Parts,
    SampleText,
    cluster_sizes,
    lengths,
    sample_kept_texts,
    sample_malformed,
    sample_rejects,
    tally_documents,
)
from clozeline.pipeline.execution.stage_report import REPORT_FORMAT, StageFacts, earlier_report
from clozeline.report.axis_units import duration, size_text
from clozeline.report.charts import Bar, Step, bars, funnel, histogram, shares
from clozeline.report.html_page import collapsible, facts, grid, lead, listing, page, quote, section, table
from clozeline.sealed_json import seal

# Groups of reasons, and the count that their shares are of.
_LEFT_OUT: Final = {
    "ignored": "records_in", "malformed": "records_in", "rejected": "documents_in", "tokens_dropped": "tokens_in",
    "skipped": "samples_in", "refused": "rows_in",
}  # fmt: skip

# Inputs that are listed by name.
_LISTED: Final = 50
# Names of the documents that a stage leaves.
_LEFT: Final = {"clean": "kept", "dedup": "unique"}

# Sites and languages that have a row of their own.
_GROUPS: Final = 20

_SUITE: Final = ("evaluation suite", "items", "not read", "found in documents", "too short", "documents", "words found")


def write_run_report(output: Path, names: Sequence[str], only: str | None = None) -> Path:
    """Write `report.json` and the page of a run, unless they are newer than its stages' files; return the page.

    `names` are its complete stages, in order; one that was killed before it wrote its report is left out. A stage that
    runs alone (`only`) has its own page, `STAGE/report.html`, for which the documents of other stages are not read.
    """
    run_page, folders = output / "report.html", [output / name for name in names]
    path = run_page if only is None else output / only / "report.html"
    folders = [folder for folder in folders if (folder / "report.json").is_file()]
    newest = max((folder / "report.json").stat().st_mtime_ns for folder in folders)

    def is_current(file: Path) -> bool:
        return file.exists() and file.stat().st_mtime_ns >= newest

    told = earlier_report(output / "report.json").get("stages", {}).keys()
    known = {folder.name for folder in folders} <= told and is_current(output / "report.json")
    for drawn in (run_page, path):
        if known and is_current(drawn):
            return drawn
    stages = [StageFacts.read(folder) for folder in folders]
    if not known:
        plain = {
            stage.name: {
                "counts": stage.counts, "bytes": stage.bytes, "seconds": stage.seconds, "slowest": stage.slowest,
                "deciders": stage.deciders,
            }
            for stage in stages
        }  # fmt: skip
        publish_json(output / "report.json", seal({"format": REPORT_FORMAT, "stages": plain}))
        run_page.unlink(missing_ok=True)
    publish_text(path, page("Clozeline · what happened to every document", _parts(output, stages, only)))
    return path


def _parts(output: Path, stages: Sequence[StageFacts], only: str | None) -> Iterator[str]:
    plan = _plan(output / PLAN_STAGE / "plan.json")
    read = [stage for stage in stages if only in (None, stage.name)]  # stages whose documents are read
    holders = [stage for stage in read if stage.documents.is_dir()]
    inputs, size = plan["inputs"], sum(facts["bytes"] for facts in plan["inputs"])
    shown = {f"input in {len(inputs):,} file{'s' * (len(inputs) != 1)}": size_text(size)}
    shown |= {step.name: f"{step.count:,}" for step in _steps(stages) if step.name in ("unique", "tokens", "examples")}
    if sentence := _outcome(_steps(stages)):
        yield lead(sentence)
    yield facts({**shown, "time of all stages": duration(sum(stage.seconds for stage in stages))})
    rates = [(stage, f"{duration(stage.seconds)} · {size_text(size / max(stage.seconds, 1e-3))}/s") for stage in stages]
    times = bars(
        "Time of each stage, and input per second", [Bar(each.name, each.seconds, rate) for each, rate in rates]
    )
    yield grid(funnel("From documents to examples", _steps(stages)), times)
    yield section("Dropped, and why", grid(*_reasons(stages)))
    for suites in (stage.counts["suites"] for stage in stages if "suites" in stage.counts):
        yield section("Contamination", table(_SUITE, [_suite_row(*suite) for suite in sorted(suites.items())]))
    if holders:
        parts = Parts.of(holders[-1].documents)
        texts = _quotes(sample_kept_texts(parts))
        yield section("What is kept", grid(*_shapes(read, parts)), "<h3>Three of the texts</h3>", texts)
        yield section("By site and language", *_iter_groups(stages, holders))
    yield section("What is edited", *_iter_edits(read))
    yield section("What is dropped", *_iter_drops(stages, holders))
    yield section("Tokens", *iter_fertility(stages))
    yield section("Where it comes from", *_provenance(output, plan, stages))


def _plan(path: Path) -> Mapping[str, Any]:
    try:
        return read_plan(path)
    except (OSError, ValueError, KeyError, TypeError):
        return {"inputs": []}


def _outcome(steps: Sequence[Step]) -> str:
    """Return what became of the documents, in one sentence."""
    documents = [step.count for step in steps if step.unit == "documents"]
    if not documents:
        return ""
    made = [f"{step.count:,} {step.unit}" for step in steps if step.unit in ("tokens", "examples")]
    share = f"{100 * documents[-1] / max(1, documents[0]):.1f} %"
    left = f"Of {documents[0]:,} documents, {documents[-1]:,} are left ({share})"
    return f"{left}, as {' and '.join(made)}." if made else f"{left}."


def _steps(stages: Sequence[StageFacts]) -> list[Step]:
    """Return the funnel: each step that a stage of the run has counted."""
    amounts: list[tuple[str, int]] = []
    for stage in stages:
        if not amounts and "documents_in" in stage.counts:
            amounts.append(("documents", stage.counts["documents_in"]))
        if stage.documents.is_dir():
            amounts.append((_LEFT.get(stage.name, f"after {stage.name}"), stage.counts["documents_out"]))
    parts = ["", *(f"{100 * after / max(1, before):.1f} %" for (_, before), (_, after) in pairwise(amounts))]
    steps = [Step(name, amount, "documents", part) for (name, amount), part in zip(amounts, parts, strict=False)]
    counts = {stage.name: stage.counts for stage in stages}
    if "encode" in counts:
        tokens = counts["encode"].get("tokens", 0) + counts["encode"].get("target_tokens", 0)
        note = f"{tokens / max(1, counts['encode']['documents_out']):,.0f} a document"
        steps.append(Step("tokens", tokens, "tokens", note))
    if "corrupt" in counts:
        objectives = len(counts["corrupt"].get("objectives", {}))
        note = f"of {objectives} objective{'s' * (objectives != 1)}, all variants"
        steps.append(Step("examples", counts["corrupt"].get("examples", 0), "examples", note))
    if "tasks" in counts:
        rows, examples = counts["tasks"]["rows_in"], counts["tasks"]["examples"]
        kept = f"{100 * examples / max(1, rows):.1f} %"
        steps += [Step("rows", rows, "rows", ""), Step("examples", examples, "examples", kept)]
    return steps


def _reasons(stages: Sequence[StageFacts]) -> Iterator[str]:
    for stage in stages:
        for group, whole in _LEFT_OUT.items():
            reasons = dict(_leaves(stage.counts.get(group, {})))
            key = whole if whole in stage.counts else "documents_in"
            count = stage.counts.get(key, 0)
            sized = key.startswith("bytes") or key.endswith("bytes")
            total = size_text(count) if sized else f"{count:,} {key.removesuffix('_in')}"
            title = f"{stage.name} · {group.replace('_', ' ')}, of {total}"
            yield bars(title, shares(reasons, stage.counts.get(key), size_text if sized else "{:,}".format))


def _shapes(stages: Sequence[StageFacts], parts: Parts) -> Iterator[str]:
    """Yield lengths, languages, sources and sizes of duplicate clusters."""
    yield histogram(f"Documents by length{parts.share}", *lengths(parts), "characters, in doubling ranges")
    counts = {stage.name: stage.counts for stage in stages}
    for title, name, key in (
        ("Documents by language", "clean", "languages"),
        ("Tokens by language", "encode", "tokens_by_language"),
        ("Tokens by source", "encode", "tokens_by_source"),
        ("Tokens by language of all copies, on average", "balance", "balanced"),
    ):
        yield bars(title, shares(counts.get(name, {}).get(key, {})))
    for stage in stages:
        for kind in ("exact", "near"):
            ranges = Parts.of(stage.folder / "clusters" / kind)
            title = f"Clusters of {kind} duplicates{ranges.share}"
            yield histogram(title, *cluster_sizes(ranges), "documents in a cluster")


def _iter_groups(stages: Sequence[StageFacts], holders: Sequence[StageFacts]) -> Iterator[str]:
    """Yield what each stage left of the documents of each site, and of each language with its tokens."""
    parts = [(stage, Parts.of(stage.documents)) for stage in holders]
    files = [[file.path.name for file in each.files] for _, each in parts]
    compared = [pair for pair, own in zip(parts, files, strict=True) if own == files[0]]  # of the same units
    sampled = [each for _, each in compared]
    tokens: Mapping[str, int] = next(
        (stage.counts["tokens_by_language"] for stage in stages if stage.name == "encode"), {}
    )
    for title, column in (("site", "url"), ("language", "language")):
        counted = column == "language" and tokens and not sampled[0].share  # tokens are of all parts
        by_stage = [tally_documents(parts, column) for parts in sampled]
        first, last = by_stage[0], by_stage[-1]
        if not any(first):
            continue  # no document has one
        ranked = sorted(first, key=lambda name: (-first[name][0], name))
        groups = [([name], name or "without one") for name in ranked[:_GROUPS]]
        if rest := ranked[_GROUPS:]:
            groups.append((rest, f"{len(rest):,} others"))
        rows = []
        for names, shown in groups:
            sizes = [sum(found.get(name, (0, 0))[0] for name in names) for found in by_stage]
            share, characters = f"{100 * sizes[-1] / sizes[0]:.1f} %", sum(last.get(name, (0, 0))[1] for name in names)
            own = [sum(tokens.get(name, 0) for name in names)] if counted else []
            rows.append((shown, *sizes, *([share] if len(sizes) > 1 else []), characters, *own))
        stays = ["left"] if len(compared) > 1 else []
        names = [_LEFT.get(stage.name, f"after {stage.name}") for stage, _ in compared]
        header = [title, *names, *stays, "characters", *(["tokens"] if counted else [])]
        yield f"<h3>Documents by {title}{sampled[0].share}</h3>{table(header, rows)}"


def _suite_row(name: str, counts: Mapping[str, int]) -> tuple[str | int, ...]:
    share = f"{100 * counts['overlap_words'] / max(1, counts['words']):.1f} %"
    return name, *(counts[key] for key in ("items", "unreadable", "contaminated", "too_short", "documents")), share


def _quotes(samples: Sequence[SampleText]) -> str:
    return grid(*(quote(sample.text, sample.origin) for sample in samples))


def _iter_edits(stages: Sequence[StageFacts]) -> Iterator[str]:
    """Yield up to three passages for each kind of edit, before and after."""
    for stage in stages:
        counts = stage.counts.get("edits", {})
        for kind, samples in sorted(stage.edits.items(), key=lambda item: (-counts.get(item[0], 0), item[0])):
            title = f"{stage.name} · {kind} · {counts.get(kind, 0):,} characters removed"
            passages = [(quote(each["before"], f"before · {each['origin']}"), each["after"]) for each in samples]
            after = (
                (before, quote(text, "after" if text else "after: nothing is left of it")) for before, text in passages
            )
            yield collapsible(title, *(grid(*pair) for pair in after))


def _iter_drops(stages: Sequence[StageFacts], holders: Sequence[StageFacts]) -> Iterator[str]:
    """Yield up to three texts for each reason; a stage has some of them from the documents that it read."""
    complete = True
    for stage in holders:
        before = stages[: stages.index(stage)]
        earlier = next((each.documents for each in reversed(before) if each.documents.is_dir()), None)
        texts = sample_rejects(Parts.of(stage.folder / "rejects"), earlier)
        counts = stage.counts.get("rejected", {})
        for reason, samples in sorted(texts.items(), key=lambda item: (-counts.get(item[0], 0), item[0])):
            count = counts.get(reason, 0)
            yield collapsible(f"{stage.name} · {reason} · {count:,} document{'s' * (count != 1)}", _quotes(samples))
            complete = complete and all(sample.text for sample in samples)
        yield from _list_malformed(stage)
    if not complete:
        yield "<p class=muted>Where no text is shown, none was kept: "
        yield "clean.keep_text is the share of rejected documents that keep it.</p>"


def _list_malformed(stage: StageFacts) -> Iterator[str]:
    """Yield where the first malformed records of each reason are."""
    counts = stage.counts.get("malformed", {})
    for reason, records in sample_malformed(Parts.of(stage.folder / "rejects")).items():
        count = counts.get(reason, 0)
        title = f"{stage.name} · {reason} · {count:,} malformed record{'s' * (count != 1)}"
        rows: list[tuple[str | int, ...]] = [(each.source, each.offset, each.length, each.detail) for each in records]
        if count > len(rows):
            rows.append((f"{count - len(rows):,} others", "", "", ""))
        yield collapsible(title, table(["source", "offset", "bytes", "what is wrong"], rows))


def _provenance(output: Path, plan: Mapping[str, Any], stages: Sequence[StageFacts]) -> Iterator[str]:
    inputs, manifests = plan["inputs"], read_manifests(output, stages)
    yield list_provenance(plan, stages, manifests)
    yield way_back(manifests)
    rows = [(file["source"], file["reader"], size_text(file["bytes"])) for file in inputs[:_LISTED]]
    if len(inputs) > len(rows):
        rows.append(
            (f"{len(inputs) - len(rows):,} others", "", size_text(sum(file["bytes"] for file in inputs[_LISTED:])))
        )
    yield f"<h3>Inputs</h3>{table(['source', 'reader', 'size'], rows)}"
    lacking = [pair for stage in stages for pair in sorted(stage.counts.get("without_records", {}).items())]
    empty = [(source, size_text(size)) for source, size in lacking]
    if empty:
        yield f"<h3>Inputs without a record</h3>{table(['source', 'size'], empty)}"
    written = [(stage.name, stage.units, size_text(stage.bytes), duration(stage.seconds)) for stage in stages]
    yield f"<h3>Stages</h3>{table(['stage', 'units', 'written', 'time'], written)}"
    yield from iter_slowest(stages)
    totals = {name: (manifest.totals, manifest.checksum[:16]) for name, manifest in manifests.items()}
    sets = [
        (name, each.samples, each.tokens, each.shards, size_text(each.bytes), sum_)
        for name, (each, sum_) in totals.items()
    ]
    if sets:
        header = ["set", "rows", "tokens", "shards", "size", "checksum of the manifest"]
        yield f"<h3>Shard sets</h3>{table(header, sets)}"
    yield from iter_deciders(stages)
    for stage in stages:
        yield collapsible(f"All counts of {stage.name}", table(["count", ""], sorted(_leaves(stage.counts))))
    yield collapsible("Recipe", listing((stages[-1].folder / "config.yaml").read_text(encoding="utf-8")))
    yield f"<p class=muted>Clozeline {version('clozeline')}</p>"


def _leaves(counts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, int]]:
    for name, value in counts.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name} · ")
        else:
            yield f"{prefix}{name}", value
