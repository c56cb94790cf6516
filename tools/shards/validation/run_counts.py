"""The counts of a run, each computed a second way: records against reports, reports against the data itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from clozeline.errors import IntegrityError
from clozeline.files import file_hash, parse_json
from clozeline.format_version import refuse_newer
from clozeline.pipeline.clean.unit_counts import characters_of
from clozeline.pipeline.execution.plan import PLAN_FORMAT, PLAN_STAGE
from clozeline.pipeline.execution.report import read_report
from clozeline.pipeline.execution.stage_order import all_stages
from clozeline.pipeline.execution.unit_record import TEMPORARY, Counts, UnitRecord, add_counts
from clozeline.pipeline.group.groupings import GroupingSpec
from clozeline.pipeline.ingest.documents.copies import FACTORS_FILE, FACTORS_FORMAT
from clozeline.pipeline.ingest.documents.files import read_documents, read_rejects
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.repair import repair_of
from clozeline.tools.shards.validation.shard_set import check_shard_set
from clozeline.tools.shards.validation.stage_counts import counted_again, task_counts

_REMEDY: Final = "give the output folder of a complete run; the command of its last stage writes reports again"
_BALANCES: Final = (
    (("bytes_owned", "bytes_read_twice"), ("bytes_decoded", "bytes_undecoded")),
    (("content_bytes",), ("content_kept", "content_skipped")),
    (("records_found",), ("records_given",)),
    (("records_in",), ("ignored", "malformed", "documents_in")),
    (("characters_in",), ("characters_out", "characters_removed")),
)
"""Counts of a stage whose sums are equal."""
_KINDS: Final = ("texts", "pairs")
"""Keys of what `balance` counts."""
Check: TypeAlias = tuple[Path, str, object, object]
"""A file, a count's name in it, its value there, and the value computed again."""


def check_run(output: Path) -> dict[str, int]:
    """Compare all counts of a run's stages; return the number of comparisons of each stage.

    Args:
        output: folder of the run, with `report.json`.

    Raises:
        IntegrityError: the first difference, with the file that says otherwise.
        StorageError: no report is there.
    """
    run = read_report(output / "report.json", _REMEDY)["stages"]
    stages = {name: read_report(output / name / "report.json", _REMEDY) for name in all_stages() if name in run}
    compared = dict.fromkeys(stages, 0)
    for part in (_from_records, _from_files, _from_data):  # what is cheap first
        before: Mapping[str, Any] = {}
        for name, report in stages.items():
            said = {key: report[key] for key in ("counts", "bytes", "seconds")}
            _same(output / "report.json", f"stages.{name}", run[name], said)
            for path, what, value, expected in part(output / name, report, before):
                _same(path, what, value, expected)
                compared[name] += 1
            before = before | report["counts"]
    return compared


def _same(path: Path, what: str, value: object, expected: object) -> None:
    if value == expected:
        return
    if isinstance(value, Mapping) and isinstance(expected, Mapping):
        for key in sorted({*value, *expected}):
            _same(path, f"{what}.{key}", value.get(key), expected.get(key))
    raise IntegrityError(f"{path}: {what}: the file says {value}, computed again it is {expected}; {repair_of(path)}")


def _records(folder: Path) -> list[UnitRecord]:
    found = []
    for path in sorted((folder / "records").glob("*.json")):
        record = UnitRecord.read(path)
        if record is None:
            raise IntegrityError(f"{path}: damaged, or the record of another unit; {repair_of(path)}")
        found.append(record)
    return found


def _from_records(folder: Path, report: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Check]:
    """Yield what the records of a stage sum up to, and what the stages before it wrote against what it read."""
    path, found = folder / "report.json", _records(folder)
    if len(found) < (units := report["units"]):
        raise IntegrityError(f"{folder / 'records'}: expected {units} records, got {len(found)}; {repair_of(path)}")
    total: Counts = {}
    for record in found:
        add_counts(total, record.counts)
    yield path, "counts", report["counts"], total
    yield path, "units", report["units"], len(found)
    yield path, "bytes", report["bytes"], sum(file["bytes"] for one in found for file in one.outputs.values())
    for what, value, expected in _sums(report["counts"]):
        yield path, what, value, expected
    for key in ("documents", "characters"):
        written = before.get(f"{key}_out")
        if isinstance(written, int) and f"{key}_in" in report["counts"]:
            yield path, f"{key}_in", report["counts"][f"{key}_in"], written


def _sums(counts: Mapping[str, Any]) -> Iterator[tuple[str, object, object]]:
    """Yield the counts of a stage that other counts of it sum up to."""
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
        for one in (counts["malformed"], counts["notes"]):
            add_counts(events, {reason: number for reason, number in one.items() if number})
        listed: Counts = {}
        for one in counts["by_source"].values():
            add_counts(listed, one)
        yield "by_source", listed, events


def _read_json(path: Path, newest: int) -> Any:
    try:
        content = parse_json(path.read_bytes())
    except ValueError as error:
        raise IntegrityError(f"{path}: damaged ({error}); {repair_of(path)}") from error
    refuse_newer(path, content, newest)
    return content


def _bytes_of(plan: Path) -> int:
    """Return the bytes of all units of a plan."""
    content = _read_json(plan, PLAN_FORMAT)
    try:
        return sum(one["end"] - one["start"] for one in content["units"])
    except (KeyError, TypeError) as error:
        raise IntegrityError(f"{plan}: expected units with start and end; {repair_of(plan)}") from error


def _amount(count: Any) -> int:
    """Return a count, or the sum of those that a mapping holds."""
    return sum(count.values()) if isinstance(count, Mapping) else count


def _from_files(folder: Path, report: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Check]:
    """Yield size and hash of each file that the records list."""
    for record in _records(folder):
        for relative, facts in record.outputs.items():
            path = folder / relative
            if not relative.startswith(f"{TEMPORARY}/"):
                yield path, "bytes", path.stat().st_size if path.is_file() else None, facts["bytes"]
                yield path, "xxh3_128", file_hash(path), facts["xxh3_128"]


def _from_data(folder: Path, report: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Check]:
    """Yield what the documents, rejects and shard sets of a stage hold."""
    counts, path = report["counts"], folder / "report.json"
    if folder.name == PLAN_STAGE:
        yield path, "bytes_in", counts["bytes_in"], _bytes_of(folder / "plan.json")
    if (folder / "documents").is_dir():
        texts = [document for file in _arrows(folder / "documents") for document in read_documents(file)]
        yield path, "documents_out", counts["documents_out"], len(texts)
        yield path, "characters_out", counts["characters_out"], sum(map(characters_of, texts))
        yield folder / "documents", "n_chars", [one.n_chars for one in texts], [len(one.text) for one in texts]
        if "languages" in counts:
            yield path, "languages", counts["languages"], dict(Counter(document.language for document in texts))
    if (folder / "rejects").is_dir():
        reasons = Counter(row.reason for file in _arrows(folder / "rejects") for row in read_rejects(file))
        yield path, "rejected", {key: value for key, value in counts["rejected"].items() if value}, dict(reasons)
    if "held_out" in before and "documents" in counts:
        held = before["held_out"].get("documents", 0)
        documents = {"heldout": held, "train": before["merged"]["documents"] - held}
        yield path, "documents", counts["documents"], {split: number for split, number in documents.items() if number}
    for what, value, expected in (*_balanced(folder, counts, before), *counted_again(folder, counts)):
        yield path, what, value, expected
    if (vocabulary := folder / "tokenizer" / "vocabulary.json").is_file():
        said = counts["vocabulary"]  # of a published one: its own ids, and those that were added
        size = said["size"] if "size" in said else said["published"] + said["added"]
        yield path, "vocabulary", size, Vocabulary.load(vocabulary).size
    for kind in sorted(one.name for one in folder.glob("clusters/*")):
        members = [pa.ipc.open_file(file).read_all() for file in _arrows(folder / "clusters" / kind)]
        clusters = sum(len(table["cluster"].unique()) for table in members)
        yield path, f"{kind}.clusters", counts[kind]["clusters"], clusters
        dropped = sum(table["kept"].to_pylist().count(False) for table in members)
        yield path, f"{kind}.dropped", counts[kind]["dropped"], dropped
    if "sentences" in counts:
        kept = counts["sentences"]["found"] - counts["sentences"]["merged"]
        yield path, "sentences", kept, _sentences(folder / "manifest.json")
        if "target_tokens" not in counts:  # it counts no characters of the other sides of pairs
            yield path, "characters", counts["characters"], before["characters_out"]
    for manifest in sorted(folder.rglob("manifest.json")):
        for what, value, expected in _from_set(folder, manifest, counts, before):
            yield path, what, value, expected


def _balanced(
    folder: Path, counts: Mapping[str, Any], before: Mapping[str, Any]
) -> Iterator[tuple[str, object, object]]:
    """Yield the documents that `balance` counted, and those that `group` copied, by language."""
    if "balanced" in counts:
        yield "documents_in", counts["documents_in"], before["merged"]["documents"]
        yield "skipped.held_out", counts["skipped"]["held_out"], before["held_out"].get("documents", 0)
        factors = _read_json(folder / FACTORS_FILE, FACTORS_FORMAT)
        told = {language: row for kind in _KINDS for language, row in factors.get(kind, {}).items()}
        sums = _by_language(counts)
        yield (
            "tokens",
            {name: row["tokens"] for name, row in told.items()},
            {n: one["tokens"] for n, one in sums.items()},
        )
        yield "balanced", counts["balanced"], {name: row["balanced_tokens"] for name, row in told.items()}
    if "copies" in counts:
        found = {name: {key: one[key] for key in ("documents", "tokens")} for name, one in counts["copies"].items()}
        yield "copies", found, _by_language(before)


def _by_language(counts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `balance` counted of each language, over all sources."""
    found: dict[str, Any] = {}
    for kind in _KINDS:
        for language, by_source in counts.get(kind, {}).items():
            for one in by_source.values():
                add_counts(found, {language: one})
    return found


def _sentences(manifest: Path) -> int:
    """Return the number of sentences in a token set."""
    shards = open_shards(manifest)
    blocks = (shards.read_block(block) for block in range(len(shards.index)))
    return sum(len(block.columns["sentence_starts"].values) for block in blocks)


def _arrows(folder: Path) -> Sequence[Path]:
    return sorted(folder.glob("*.arrow"))


def _from_set(
    folder: Path, manifest: Path, counts: Mapping[str, Any], before: Mapping[str, Any]
) -> Iterator[tuple[str, object, object]]:
    """Yield what a shard set holds, of which every row is read, and the samples that its examples were made from."""
    shards = open_shards(manifest)
    found, grouping = check_shard_set(shards), shards.manifest.grouping
    parts = manifest.parent.relative_to(folder).parts
    if "splits" in counts:
        parts = ("splits", parts[-1])
        yield from task_counts(shards, counts["splits"][parts[-1]], ".".join(parts))
    said: Any = counts if not parts or parts[0] == "splits" else counts.get("sets", counts.get("objectives"))
    for part in parts:
        said = said[part]
    rows = next(key for key in ("examples", "samples", "documents_out") if key in said)
    yield ".".join((*parts, rows)), said[rows], found.rows
    others = said.get("target_tokens", 0) if rows == "samples" else 0
    yield ".".join((*parts, "tokens")), said["tokens"] + said.get("separators", 0) - others, found.tokens
    totals = shards.manifest.totals  # compared with the rows above
    for key, amounts in (("language", totals.tokens_by_language), ("source", totals.tokens_by_source)):
        if (name := f"by_{key}") in said or (name := f"tokens_{name}") in said:
            yield ".".join((*parts, name)), said[name], amounts
    if rows == "examples" and grouping is not None and "sets" in before:
        label = GroupingSpec.of(grouping.name, grouping.options).label
        samples = before["sets"][label][parts[-1]]["samples"] * shards.manifest.variants
        yield ".".join((*parts, "samples_in")), said["samples_in"], samples
