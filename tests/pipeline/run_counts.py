"""Recompute the counts of a pipeline run: records against reports, reports against the data."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from clozeline.files import file_hash
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.plan import PLAN_STAGE
from clozeline.pipeline.execution.report import read_report
from clozeline.pipeline.execution.unit_record import TEMPORARY, Counts, UnitRecord, add_counts
from clozeline.pipeline.group.groupings import GroupingSpec
from clozeline.pipeline.ingest.documents.copies import FACTORS_FILE
from clozeline.pipeline.ingest.documents.files import read_documents, read_malformed, read_rejects
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.tools.shards.validation.shard_set import check_shard_set
from tests.pipeline.stage_counts import recount, task_counts

_BALANCES: Final = ((("records_in",), ("ignored", "malformed", "documents_in")),)
"""Counts of a stage whose sums are equal."""
_KINDS: Final = ("texts", "pairs")
"""Groups of counts of a stage whose sums are equal."""
Check: TypeAlias = tuple[Path, str, object, object]
"""File, name of a count in it, its value there, and the recomputed value."""


def check_run(output: Path) -> dict[str, int]:
    """Compare all counts of a run's stages; return the number of comparisons per stage."""
    run = read_report(output / "report.json", "")["stages"]
    stages = {name: read_report(output / name / "report.json", "") for name in all_stages() if name in run}
    compared = dict.fromkeys(stages, 0)
    for part in (_check_records, _check_files, _check_data):  # cheap comparisons first
        before: Mapping[str, Any] = {}
        for name, report in stages.items():
            _require_equal(output / "report.json", f"stages.{name}", run[name], report)
            for path, what, value, expected in part(output / name, report, before):
                _require_equal(path, what, value, expected)
                compared[name] += 1
            before = before | report["counts"]
    return compared


def _require_equal(path: Path, what: str, value: object, expected: object) -> None:
    if value == expected:
        return
    if isinstance(value, Mapping) and isinstance(expected, Mapping):
        for key in sorted({*value, *expected}):
            _require_equal(path, f"{what}.{key}", value.get(key), expected.get(key))
    raise AssertionError(f"{path}: {what}: the file says {value}, computed again it is {expected}")


def _records(folder: Path) -> list[UnitRecord]:
    found = [UnitRecord.read(path) for path in sorted((folder / "records").glob("*.json"))]
    assert None not in found, f"{folder / 'records'}: a damaged record"
    return [record for record in found if record is not None]


def _check_records(folder: Path, report: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Check]:
    path, records = folder / "report.json", _records(folder)
    total: Counts = {}
    for record in records:
        add_counts(total, record.counts)
    yield path, "counts", report["counts"], total
    yield path, "units", report["units"], len(records)
    yield path, "bytes", report["bytes"], sum(file["bytes"] for record in records for file in record.outputs.values())
    for what, value, expected in _sums(report["counts"]):
        yield path, what, value, expected
    for key in ("documents", "characters"):
        written = before.get(f"{key}_out")
        if isinstance(written, int) and f"{key}_in" in report["counts"]:
            yield path, f"{key}_in", report["counts"][f"{key}_in"], written


def _sums(counts: Mapping[str, Any]) -> Iterator[tuple[str, object, object]]:
    total: Any = {}
    for splits in (*counts.get("sets", counts.get("objectives", {})).values(), counts.get("splits", {})):
        for part in splits.values():
            add_counts(total, part)
    for key in sorted(total.keys() & counts.keys()):
        yield key, counts[key], total[key]
    for left, right in _BALANCES:
        if left[0] in counts:
            balance = [sum(_amount(counts.get(key, 0)) for key in side) for side in (left, right)]
            yield left[0], balance[0], balance[1]
    if "text_lacks" in counts:
        without = sum(counts["malformed"].get(reason, 0) for reason in ("no_text", "schema"))
        yield "text_lacks", _amount(counts["text_lacks"]), without
    if "by_source" in counts:
        events: Counts = {}
        for reasons in (counts["malformed"], counts["notes"]):
            add_counts(events, {reason: number for reason, number in reasons.items() if number})
        listed: Counts = {}
        for reasons in counts["by_source"].values():
            add_counts(listed, reasons)
        yield "by_source", listed, events


def _amount(count: Any) -> int:
    return sum(count.values()) if isinstance(count, Mapping) else count


def _check_files(folder: Path, report: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Check]:
    for record in _records(folder):
        for relative, facts in record.outputs.items():
            path = folder / relative
            if not relative.startswith(f"{TEMPORARY}/"):
                yield path, "bytes", path.stat().st_size if path.is_file() else None, facts["bytes"]
                yield path, "xxh3_128", file_hash(path), facts["xxh3_128"]


def _check_data(folder: Path, report: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Check]:
    counts, path = report["counts"], folder / "report.json"
    if folder.name == PLAN_STAGE:
        content = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        planned = sum(unit["end"] - unit["start"] for unit in content["units"])
        yield path, "bytes_in", counts["bytes_in"], planned
    if (folder / "documents").is_dir():
        texts = [document for file in _arrow_files(folder / "documents") for document in read_documents(file)]
        yield path, "documents_out", counts["documents_out"], len(texts)
        yield path, "characters_out", counts["characters_out"], sum(text.characters for text in texts)
        lengths = [document.n_chars for document in texts], [len(document.text) for document in texts]
        yield folder / "documents", "n_chars", *lengths
        if "languages" in counts:
            counted = {language: count for language, count in counts["languages"].items() if count}
            yield path, "languages", counted, dict(Counter(document.language for document in texts))
    if (folder / "rejects").is_dir():
        reasons = Counter(row.reason for file in _arrow_files(folder / "rejects") for row in read_rejects(file))
        yield path, "rejected", {key: value for key, value in counts["rejected"].items() if value}, dict(reasons)
        listed = Counter(row.reason for file in _arrow_files(folder / "rejects") for row in read_malformed(file))
        yield path, "malformed_listed", counts.get("malformed_listed", {}), dict(listed)
    if "held_out" in before and "documents" in counts:
        heldout = before["held_out"].get("documents", 0)
        documents = {"heldout": heldout, "train": before["merged"]["documents"] - heldout}
        yield path, "documents", counts["documents"], {split: number for split, number in documents.items() if number}
    for what, value, expected in (*_check_languages(folder, counts, before), *recount(folder, counts)):
        yield path, what, value, expected
    if (vocabulary := folder / "tokenizer" / "vocabulary.json").is_file():
        parts = ("size",) if "size" in counts["vocabulary"] else ("published", "added")
        size = sum(counts["vocabulary"][part] for part in parts)
        yield path, "vocabulary", size, Vocabulary.load(vocabulary).size
    for kind in sorted(clusters_folder.name for clusters_folder in folder.glob("clusters/*")):
        members = [pa.ipc.open_file(file).read_all() for file in _arrow_files(folder / "clusters" / kind)]
        clusters = sum(len(table["cluster"].unique()) for table in members)
        yield path, f"{kind}.clusters", counts[kind]["clusters"], clusters
        dropped = sum(table["kept"].to_pylist().count(False) for table in members)
        yield path, f"{kind}.dropped", counts[kind]["dropped"], dropped
    if "sentences" in counts:
        kept = counts["sentences"]["found"] - counts["sentences"]["merged"]
        shards = open_shards(folder / "manifest.json")
        blocks = (shards.read_block(block).columns for block in range(len(shards.index)))
        yield path, "sentences", kept, sum(len(columns["sentence_starts"].values) for columns in blocks)
        if "target_tokens" not in counts:  # characters of target sides are not counted
            yield path, "characters", counts["characters"], before["characters_out"]
    for manifest in sorted(folder.rglob("manifest.json")):
        for what, value, expected in _check_set(folder, manifest, counts, before):
            yield path, what, value, expected


def _check_languages(
    folder: Path, counts: Mapping[str, Any], before: Mapping[str, Any]
) -> Iterator[tuple[str, object, object]]:
    """Yield, per language, the documents that `balance` counted, and those that `group` read."""
    if "balanced" in counts:
        yield "documents_in", counts["documents_in"], before["merged"]["documents"]
        yield "skipped.held_out", counts["skipped"]["held_out"], before["held_out"].get("documents", 0)
        factors = json.loads((folder / FACTORS_FILE).read_text(encoding="utf-8"))
        rows = {language: row for kind in _KINDS for language, row in factors.get(kind, {}).items()}
        tokens, summed = ({name: row["tokens"] for name, row in side.items()} for side in (rows, _by_language(counts)))
        yield "tokens", tokens, summed
        yield "balanced", counts["balanced"], {name: row["balanced_tokens"] for name, row in rows.items()}
    if "copies" in counts:
        sums = [sum(row[key] for row in _by_language(before).values()) for key in ("documents", "tokens")]
        read = counts["read"]["train"]
        yield "read", [read["documents"], read["tokens"] + read["target_tokens"]], sums


def _by_language(counts: Mapping[str, Any]) -> dict[str, Any]:
    totals: dict[str, Any] = {}
    for kind in _KINDS:
        for language, by_source in counts.get(kind, {}).items():
            for row in by_source.values():
                add_counts(totals, {language: {name: row[name] for name in ("documents", "tokens")}})
    return totals


def _arrow_files(folder: Path) -> Sequence[Path]:
    return sorted(folder.glob("*.arrow"))


def _check_set(
    folder: Path, manifest: Path, counts: Mapping[str, Any], before: Mapping[str, Any]
) -> Iterator[tuple[str, object, object]]:
    shards = open_shards(manifest)
    findings, grouping = check_shard_set(shards), shards.manifest.grouping
    parts = manifest.parent.relative_to(folder).parts
    if "splits" in counts:
        parts = ("splits", parts[-1])
        yield from task_counts(shards, counts["splits"][parts[-1]], ".".join(parts))
    set_counts: Any = counts if not parts or parts[0] == "splits" else counts.get("sets", counts.get("objectives"))
    for part in parts:
        set_counts = set_counts[part]
    rows = next(key for key in ("examples", "samples", "documents_out") if key in set_counts)
    yield ".".join((*parts, rows)), set_counts[rows], findings.rows
    others = set_counts.get("target_tokens", 0) if rows == "samples" else 0
    yield ".".join((*parts, "tokens")), set_counts["tokens"] + set_counts.get("separators", 0) - others, findings.tokens
    totals = shards.manifest.totals  # compared with the rows above
    for key, amounts in (("language", totals.tokens_by_language), ("source", totals.tokens_by_source)):
        if (name := f"by_{key}") in set_counts or (name := f"tokens_{name}") in set_counts:
            yield ".".join((*parts, name)), set_counts[name], amounts
    if rows == "examples" and grouping is not None and "sets" in before:
        label = GroupingSpec.of(grouping.name, grouping.options).label
        samples = before["sets"][label][parts[-1]]["samples"] * shards.manifest.variants
        yield ".".join((*parts, "samples_in")), set_counts["samples_in"], samples
