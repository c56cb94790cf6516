"""Every count of a run is computed in two ways: a change of either is named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clozeline.files import file_hash
from clozeline.pipeline.execution.unit_record import UnitRecord
from clozeline.pipeline.ingest.documents.files import read_documents, read_rejects, write_documents, write_rejects
from clozeline.tools.shards.verify_counts import main
from tests.pipeline.task_files import make_question_sets, make_sets, make_tagged_sets, make_text_sets


def change_json(path: Path, change: Callable[[Any], object]) -> None:
    """Change a record, or a report as a fault of the program would, which writes it with a right checksum."""
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    if path.name == "report.json":
        del data["checksum"]
    path.write_text(json.dumps(data), encoding="utf-8")


def numbers(data: dict[str, Any], *above: str) -> list[tuple[str, ...]]:
    """Return the keys that lead to each number."""
    found = []
    for key, value in data.items():
        found += numbers(value, *above, key) if isinstance(value, dict) else [(*above, key)]
    return found


def raise_number(data: Any, keys: tuple[str, ...], by: int = 1) -> None:
    for key in keys[:-1]:
        data = data[key]
    data[keys[-1]] += by


def refused(run: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([str(run)]) == 65
    return capsys.readouterr().err.replace("\n", " ")


def relist(record: Path, relative: str) -> UnitRecord:
    """Make a record agree with a file that was changed: as a fault of the stage itself would."""
    found = UnitRecord.read(record)
    assert found is not None
    path = record.parents[1] / relative
    found.outputs[relative] = {"bytes": path.stat().st_size, "xxh3_128": file_hash(path)}
    return found


STAGES = ["clean", "dedup", "train_tokenizer", "encode", "group", "corrupt"]


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["one of a key", "every"])
@pytest.mark.parametrize("stage", STAGES)
def test_each_number_of_each_report_is_compared(
    run: Path, stage: str, every: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the report of the stage and in that of the run alike, so that only the records say otherwise."""
    paths = run / stage / "report.json", run / "report.json"
    originals = [path.read_text(encoding="utf-8") for path in paths]
    found = numbers(json.loads(originals[0])["counts"])
    for keys in found if every else {keys[0]: keys for keys in found}.values():
        for path, above in zip(paths, ((), ("stages", stage)), strict=True):
            change_json(path, lambda data, above=above, keys=keys: raise_number(data, (*above, "counts", *keys)))
        assert f"{stage}/report.json: counts.{'.'.join(keys)}: " in refused(run, capsys)
        for path, original in zip(paths, originals, strict=True):
            path.write_text(original, encoding="utf-8")


def test_the_report_of_the_run_is_compared(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change_json(run / "report.json", lambda data: raise_number(data, ("stages", "encode", "bytes")))
    assert "stages.encode.bytes" in refused(run, capsys)


def test_a_damaged_record_is_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change_json(run / "clean" / "records" / "000000.json", lambda data: raise_number(data["counts"], ("documents_in",)))
    assert "clean/records/000000.json" in refused(run, capsys)


@pytest.mark.parametrize("stage", ["clean", "encode", "group"])
def test_a_record_that_is_gone_is_missed(run: Path, stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run / stage / "records"
    sorted(folder.glob("*.json"))[0].unlink()
    assert f"{folder}: expected " in refused(run, capsys)


def test_a_plan_of_another_form_is_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change_json(run / "clean" / "plan.json", lambda data: data.pop("units"))
    assert "clean/plan.json: expected units with start and end" in refused(run, capsys)


def test_a_configuration_that_is_none_is_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "encode" / "config.yaml").write_text("{}\n")
    assert "encode/config.yaml: 'corpus' is missing" in refused(run, capsys)


@pytest.mark.parametrize("content", [b"\xff\xfe{}", b"{", b"[" * 9999], ids=["not-utf-8", "torn", "deep"])
def test_a_damaged_plan_is_named(run: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "clean" / "plan.json").write_bytes(content)
    said = refused(run, capsys)
    assert "clean/plan.json: damaged (" in said
    assert "copy it again" in said


@pytest.mark.parametrize(
    ("relative", "message"), [("documents", "documents_out"), ("rejects", "rejected"), ("characters", "characters_out")]
)
def test_lost_rows_are_noticed_although_hashes_agree(
    run: Path, relative: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = "rejects" if relative == "rejects" else "documents"
    stage = run / "clean"
    path = next(path for path in sorted((stage / folder).glob("*.arrow")) if list(rows_of(path)))
    rows = list(rows_of(path))
    if relative == "characters":
        write_documents(path, [replace(rows[0], text=rows[0].text + "x", n_chars=rows[0].n_chars + 1), *rows[1:]])
    else:
        (write_rejects if folder == "rejects" else write_documents)(path, rows[1:])
    found = relist(stage / "records" / f"{path.stem}.json", f"{folder}/{path.name}")
    found.save(stage)
    size = sum(file["bytes"] for record in records(stage) for file in record.outputs.values())
    for report, keys in ((stage / "report.json", ()), (run / "report.json", ("stages", "clean"))):
        change_json(report, lambda data, keys=keys: inner(data, keys).update(bytes=size))
    assert message in refused(run, capsys)


def rows_of(path: Path) -> Any:
    return (read_rejects if path.parent.name == "rejects" else read_documents)(path)


def records(stage: Path) -> list[UnitRecord]:
    return [record for path in (stage / "records").glob("*.json") if (record := UnitRecord.read(path)) is not None]


def inner(data: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        data = data[key]
    return data


def test_a_set_of_fewer_rows_is_noticed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counts of records and reports are lowered together: only the data says otherwise."""
    manifest = next((run / "corrupt").rglob("manifest.json"))
    label, split = manifest.parent.parent.name, manifest.parent.name
    lower = ("objectives", label, split, "examples")
    record = next(one for one in records(run / "corrupt") if split in one.counts.get("objectives", {}).get(label, {}))  # type: ignore[attr-defined]
    for above in (lower[:-1], ()):
        raise_number(record.counts, (*above, "examples"), -1)
    record.save(run / "corrupt")
    for report, keys in (
        (run / "corrupt" / "report.json", ("counts", *lower[:-1])),
        (run / "report.json", ("stages", "corrupt", "counts", *lower[:-1])),
    ):

        def lower_all(data: Any, keys: tuple[str, ...] = keys) -> None:
            for above in (keys, keys[:-3]):
                raise_number(data, (*above, "examples"), -1)

        change_json(report, lower_all)
    assert f"{label}.{split}.examples" in refused(run, capsys)


USUAL = (("clean", "by_source"), ("clean", "bytes_in"), ("clean", "characters_removed"),
         ("clean", "text_lacks"), ("dedup", "near.candidates"), ("dedup", "near.members"), ("dedup", "near.clusters"),
         ("dedup", "characters_removed"), ("dedup", "hashed"), ("dedup", "signatures"),
         ("encode", "characters"), ("encode", "sentences"), ("encode", "held_out.tokens"),
         ("train_tokenizer", "vocabulary.size"), ("train_tokenizer", "vocabulary.asked"),
         ("train_tokenizer", "sample.bytes"), ("encode", "tokens_by_source"),
         ("group", "separators"), ("group", "documents.train"), ("corrupt", "samples_in"),
         ("corrupt", "objectives"))  # fmt: skip


def overcounted(run: Path, stage: str) -> dict[str, Callable[[], None]]:
    """Return for each counter of a stage what makes one unit count one too many, in its record and in the reports."""
    found: dict[str, Callable[[], None]] = {}
    for record in records(run / stage):
        for keys in numbers(dict(record.counts)):

            def raise_all(record: UnitRecord = record, keys: tuple[str, ...] = keys) -> None:
                raise_number(record.counts, keys)
                record.save(run / stage)
                for path, above in ((run / stage / "report.json", ()), (run / "report.json", ("stages", stage))):
                    change_json(path, lambda data, above=above: raise_number(data, (*above, "counts", *keys)))

            found.setdefault(".".join(keys), raise_all)
    return found


def unnoticed(run: Path, stage: str, chosen: Callable[[str], bool], capsys: pytest.CaptureFixture[str]) -> list[str]:
    originals = {path: path.read_bytes() for path in run.rglob("*.json")}
    silent = []
    for name, overcount in overcounted(run, stage).items():
        if chosen(name):
            overcount()
            if main([str(run)]) == 0:
                silent.append(name)
            capsys.readouterr()
            for path, content in originals.items():
                path.write_bytes(content)
    return silent


@pytest.mark.parametrize(("stage", "name"), USUAL)
def test_a_unit_that_counts_one_too_many_is_noticed(
    run: Path, stage: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = next(key for key in overcounted(run, stage) if key.startswith(name) and not key.endswith("samples"))
    assert unnoticed(run, stage, lambda key: key == first, capsys) == []


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_every_other_counter_is_compared(run: Path, stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert unnoticed(run, stage, lambda key: True, capsys) == []


@pytest.mark.parametrize("make", [make_sets, pytest.param(make_tagged_sets, marks=pytest.mark.slow),
                                  pytest.param(make_question_sets, marks=pytest.mark.slow),
                                  pytest.param(make_text_sets, marks=pytest.mark.slow)])  # fmt: skip
def test_the_counts_of_a_task_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Callable[[Path], Path]
) -> None:
    run = make(tmp_path).parents[1]
    assert main([str(run)]) == 0
    silent = [
        *unnoticed(run, "tokenizer", lambda key: True, capsys),
        *unnoticed(run, "tasks", lambda key: True, capsys),
    ]
    assert [name for name in silent if not TAKEN_FROM_THE_INPUT.search(name)] == []


TAKEN_FROM_THE_INPUT = re.compile(r"refused|layout|notes|truncated|rows_in")
"""Counts of a task that say what its files held; no set has that."""
