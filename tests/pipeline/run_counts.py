"""Recompute the counts of a pipeline run: reports from records, and records from the data."""

import json
from collections import Counter

import pyarrow as pa

from clozeline.files import file_hash
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.plan import PLAN_STAGE
from clozeline.pipeline.execution.report import read_report
from clozeline.pipeline.execution.unit_record import TEMPORARY, Counts, UnitRecord, add_counts
from clozeline.pipeline.group.groupings import recorded_grouping
from clozeline.pipeline.ingest.documents.files import read_documents, read_rejections, read_rejects
from clozeline.pipeline.recipe import load_recipe
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.layout import is_heldout
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.tools.shards.validation.shard_set import check_shard_set


def check_run(output):
    """Compare all counts of a run's stages; return the number of comparisons per stage."""
    found = {name: read_report(output / name) for name in all_stages()}
    stages = {name: report for name, report in found.items() if report}
    compared = dict.fromkeys(stages, 0)
    before = {}

    for name, report in stages.items():
        for check in (
            _check_records,
            _check_documents,
            _check_clusters,
            _check_tokens,
            _check_sets,
        ):
            for what, value, expected in check(output / name, report, before):
                assert value == expected, f"{output / name}: {what}"
                compared[name] += 1

        before |= report["counts"]

    return compared


def _check_records(folder, report, before):
    """Compare the report with the sum of the records, and the records with their files."""
    records = [UnitRecord.read(path) for path in sorted((folder / "records").glob("*/*.json"))]
    records = [record for record in records if record is not None]  # options apart
    total = Counts()
    size = 0

    for record in records:
        add_counts(total, record.counts)
        size += sum(file["bytes"] for file in record.outputs.values())
        for relative, facts in record.outputs.items():
            if not relative.startswith(f"{TEMPORARY}/"):
                path = folder / relative
                yield relative, facts, {"bytes": path.stat().st_size, "xxh3_128": file_hash(path)}

    counts = report["counts"]
    yield (
        "report",
        (
            counts,
            report["units"],
            report["bytes"],
        ),
        (total, len(records), size),
    )
    for key in ("documents", "characters"):
        if f"{key}_in" in counts and isinstance(before.get(f"{key}_out"), int):
            yield f"{key}_in", counts[f"{key}_in"], before[f"{key}_out"]

    if folder.name == PLAN_STAGE:
        planned = json.loads((folder / "plan.json").read_text())["inputs"]
        yield "bytes_in", counts["bytes_in"], sum(each["bytes"] for each in planned)
        lost = sum(
            sum(counts.get(group, {}).values()) for group in ("ignored", "malformed", "excluded")
        )
        yield "records_in", counts["records_in"], counts["documents_in"] + lost


def _check_documents(folder, report, before):
    counts = report["counts"]

    if (folder / "documents").is_dir():
        texts = [
            document
            for file in _arrow_files(folder / "documents")
            for document in read_documents(file)
        ]

        yield "documents_out", counts["documents_out"], len(texts)
        yield "characters_out", counts["characters_out"], sum(text.characters for text in texts)
        yield (
            "n_chars",
            [document.n_chars for document in texts],
            [len(document.text) for document in texts],
        )

        if "languages" in counts:
            yield (
                "languages",
                _nonzero(counts["languages"]),
                dict(Counter(document.language for document in texts)),
            )

    if (folder / "rejects").is_dir():
        files = _arrow_files(folder / "rejects")
        reasons = Counter(row.reason for file in files for row in read_rejects(file))
        yield "rejected", _nonzero(counts["rejected"]), dict(reasons)
        listed = {row.reason for file in files for row in read_rejections(file)} - reasons.keys()
        # a record and a document may both be `empty`
        lost = _nonzero(counts.get("malformed", {})).keys() - reasons.keys()
        yield "malformed", sorted(lost), sorted(listed)


def _check_clusters(folder, report, before):
    for clusters in folder.glob("clusters/*"):
        tables = [pa.ipc.open_file(file).read_all() for file in _arrow_files(clusters)]
        found = sum(len(table["cluster"].unique()) for table in tables)
        dropped = sum(table["kept"].to_pylist().count(False) for table in tables)
        counts = report["counts"]
        rejected = counts["rejected"].get(f"{clusters.name}_duplicate", 0)
        yield clusters.name, (counts[clusters.name]["clusters"], rejected), (found, dropped)


def _check_tokens(folder, report, before):
    """Compare the counts of a vocabulary, of sentences and of held-out documents with what was
    written."""
    counts = report["counts"]

    if (vocabulary := folder / "tokenizer" / "vocabulary.json").is_file():
        parts = ("size",) if "size" in counts["vocabulary"] else ("published", "added")
        yield (
            "vocabulary",
            sum(counts["vocabulary"][part] for part in parts),
            Vocabulary.load(vocabulary).size,
        )

    if "sentences" in counts:
        blocks = _blocks(open_shards(folder / "manifest.json"))
        found = sum(len(block.columns["sentence_starts"].values) for block in blocks)
        yield "sentences", counts["sentences"]["found"] - counts["sentences"]["merged"], found
        if "target_tokens" not in counts:  # characters of target sides are not counted
            yield "characters", counts["characters"], before["characters_out"]

    if "sets" in counts:
        recipe = load_recipe(folder / "config.yaml")
        blocks = _blocks(open_shards(folder.parent / "encode"))
        uids = [uid.tobytes() for block in blocks for uid in block.fixed["document_uid"]]
        held = sum(is_heldout(uid, recipe.heldout.fraction, recipe.seed) for uid in uids)
        for sample_set in counts["sets"].values():
            read = {split: part["documents_in"] for split, part in sample_set.items()}
            yield (
                "documents",
                _nonzero(read),
                _nonzero({"heldout": held, "train": len(uids) - held}),
            )


def _check_sets(folder, report, before):
    counts = report["counts"]

    for manifest in sorted(folder.rglob("manifest.json")):
        shards = open_shards(manifest)
        findings = check_shard_set(shards)
        grouping = shards.manifest.grouping
        totals = shards.manifest.totals
        parts = manifest.parent.relative_to(folder).parts
        of_set = counts.get("sets", counts.get("objectives", counts.get("splits", counts)))
        for part in parts[-1:] if "splits" in counts else parts:
            of_set = of_set[part]
        rows = next(key for key in ("examples", "samples", "documents_out") if key in of_set)
        tokens = sum(of_set["by_language"].values()) if rows == "samples" else of_set["tokens"]
        yield str(manifest), (of_set[rows], tokens), (findings.rows, findings.tokens)

        for key, amounts in (
            ("language", totals.tokens_by_language),
            ("source", totals.tokens_by_source),
        ):
            if (name := f"by_{key}") in of_set or (name := f"tokens_{name}") in of_set:
                yield f"{manifest}: {name}", of_set[name], amounts

        if rows == "examples" and grouping is not None and "sets" in before:
            label = recorded_grouping(grouping).label
            samples = before["sets"][label][parts[-1]]["samples"] * shards.manifest.variants
            yield f"{manifest}: samples_in", of_set["samples_in"], samples


def _blocks(shards):
    return (shards.read_block(block) for block in range(len(shards.index)))


def _nonzero(counts):
    return {name: count for name, count in counts.items() if count}


def _arrow_files(folder):
    return sorted(folder.glob("*.arrow"))
