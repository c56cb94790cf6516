"""A file of a newer version, of every kind: each command that reads it refuses it by name, and changes nothing.

Which commands read a kind is observed, so a new command is covered by itself.
"""

import json
from pathlib import Path

import pytest

from clozeline.files import file_hash
from clozeline.pipeline.execution.plan import PLAN_FORMAT
from clozeline.pipeline.ingest.documents.copies import FACTORS_FILE, FACTORS_FORMAT
from clozeline.pipeline.shards.manifest import canonical_sha256, manifest_text
from clozeline.sealed_json import seal
from clozeline.train.checkpoint.format import FORMAT
from tests.clozeline.bench import AGAIN, LINES, STAGES

DRY, EXPORT = "train --config train.yaml output=encoder1 --dry-run", "export-model encoder1 new"
KINDS = {
    "plan": (STAGES["clean"], "corpus1/clean/plan.json"),
    "record": (STAGES["corrupt"], "corpus1/encode/records/manifest-000000.json"),
    "report of a stage": (STAGES["dedup"], "corpus1/dedup/report.json"),
    "report of a run": (LINES["pipeline"], "corpus1/report.json"),
    "factors": (AGAIN["group"], "corpus1/balance/factors.json"),
    "tokens": (AGAIN["group"], "corpus1/encode/manifest.json"),
    "samples": (AGAIN["corrupt"], "corpus1/group/packed-62-sep/train/manifest.json"),
    "examples": (DRY, "corpus1/corrupt/masked_lm/train/manifest.json"),
    "quarantine": (LINES["validate-shards"], "corpus1/corrupt/masked_lm/train/quarantine.json"),
    "task": ("validate-shards task1/out/tasks/sst2/train", "task1/out/tasks/sst2/train/manifest.json"),
    "vocabulary": (LINES["inspect-shard"], "corpus1/train_tokenizer/tokenizer/vocabulary.json"),
    "published tokenizer": (
        "tokenizer-report task1/out/tokenizer/tokenizer corpus1/dedup", "task1/out/tokenizer/tokenizer/published.json"
    ),
    "imported model": ("export-model imported1 new", "imported1/model.json"),
    "vectors": (LINES["neighbors"], "features1/features.json"),
    "checkpoint": (EXPORT, "encoder1/checkpoints/step-00000002/checkpoint.json"),
    "sets of a run": (EXPORT, "encoder1/sets.json"),
    "status": (DRY, "encoder1/status.json"),
    "metrics": (LINES["train"], "encoder1/metrics.jsonl"),
    "events": ("explain-batch --run encoder1 --step 1", "encoder1/events.jsonl"),
}  # fmt: skip
"""A line that reads each kind of JSON file that Clozeline publishes and reads again, and a file of the kind."""


def write_newer(path):
    """Write a file as a later version would, right in every hash; return its new format, and the latest known one."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        later = {"format": 2, **json.loads(text.splitlines()[-1])}
        del later["checksum"]
        path.write_text(f"{text}{json.dumps(seal(later))}\n", encoding="utf-8")
        return 2, 1
    plain = json.loads(text)
    checksum = plain.pop("checksum", None)
    latest = {"checkpoint.json": FORMAT, FACTORS_FILE: FACTORS_FORMAT, "plan.json": PLAN_FORMAT}
    known = latest.get(path.name, plain.get("format", 1))
    plain["format"] = known + 1
    if path.name in ("manifest.json", "checkpoint.json"):
        plain["checksum"] = canonical_sha256(plain)
    elif checksum is not None:
        plain = seal(plain)
    text = json.dumps(plain, separators=(",", ":")) + "\n" if path.name == "checkpoint.json" else manifest_text(plain)
    path.write_text(text, encoding="utf-8")
    record_again(path)
    return known + 1, known


def record_again(path):
    """Put the new size and hash into the records of the units that wrote the file, and the size into the reports."""
    for folder in path.parents:
        for record in (folder / "records").glob("*.json"):
            relative, listed = str(path.relative_to(folder)), json.loads(record.read_text())["outputs"]
            if relative in listed:
                new = {"bytes": path.stat().st_size, "xxh3_128": file_hash(path)}
                change(record, {**listed, relative: new}, "outputs")
                size = json.loads((folder / "report.json").read_text())["bytes"]
                size += new["bytes"] - listed[relative]["bytes"]
                change(folder / "report.json", size, "bytes")
                change(folder.parent / "report.json", size, "stages", folder.name, "bytes")


def change(path, value, *keys):
    """Change one value of a sealed file."""
    plain = json.loads(path.read_text(encoding="utf-8"))
    del plain["checksum"]
    inner = plain
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(manifest_text(seal(plain)), encoding="utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_a_command_that_reads_it_refuses_it(whole, tmp_path, kind):
    bench, (line, file) = whole.copy(tmp_path / "copy"), KINDS[kind]
    newer, known = write_newer(bench.folder / file)
    written = (bench.folder / file).read_bytes()
    answer = bench.answer(line)
    said = f"{file}: format {newer} of a newer version, this version reads format {known}: install a newer Clozeline"
    assert answer.code == 64
    assert said in answer.error or "which is not complete" in answer.error
    assert (bench.folder / file).read_bytes() == written


def test_every_kind_is_listed(whole):
    """All JSON files of ours on the bench; others are inputs, or in forms of other libraries, or read by no command."""
    known = {Path(file).name for _, file in KINDS.values()}
    inputs = [whole.folder / name for name in ("crawl", "exported1", "scored1", "study")]
    files = [path for pattern in ("*.json", "*.jsonl") for path in whole.folder.rglob(pattern)]
    ours = {path.name for path in files if path.parent.name != "records" and not {*inputs} & {*path.parents}}
    assert ours - known == {
        "tokenizer.json",
        "tokenizer_config.json",
        "overlap.json",
        "config.json",
        "adapter_config.json",
    }
