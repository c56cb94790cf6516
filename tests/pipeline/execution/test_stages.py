"""Facts that every stage declares, what a unit that fails says, and records."""

from dataclasses import dataclass, field

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.execution.stages import (
    Pass,
    Unit,
    UnitRunner,
    check_recipe,
    document_stages,
    documents_before,
    last_documents,
    tokenizer_stage,
)
from clozeline.pipeline.execution.unit_record import Output, UnitRecord, read_records
from clozeline.pipeline.ingest.documents.files import write_documents
from clozeline.pipeline.recipe import Recipe
from tests.pipeline.execution.toy_stage import ToyStage


def recipe(*stages, **keys):
    keys |= {stage: [{"name": "masked_lm"}] if stage == "corrupt" else {} for stage in stages}
    return validate(Recipe, {"corpus": "c", "output": "out", **keys}, "test")


@pytest.mark.parametrize(("stage", "lacking"), [("dedup", "clean"), ("corrupt", "group")])
def test_a_stage_that_lacks_another_is_named(stage, lacking):
    with pytest.raises(ConfigurationError, match=f"key '{stage}' .* needs the key '{lacking}'"):
        check_recipe(recipe(stage))
    check_recipe(recipe("clean", "train_tokenizer", "encode"))


def test_one_stage_gives_the_tokenizer():
    assert tokenizer_stage(recipe("clean", "train_tokenizer", "encode")).name == "train_tokenizer"

    both = recipe("train_tokenizer", tokenizer={"path": "vocab.txt"})
    for chosen, said in ((recipe("encode"), "none"), (both, "train_tokenizer and")):
        with pytest.raises(ConfigurationError, match=f"one of the keys .*, got {said}"):
            tokenizer_stage(chosen)


@pytest.mark.parametrize(
    ("stages", "before", "found"),
    [
        (("clean", "dedup"), "train_tokenizer", "dedup"),
        (("clean", "dedup"), "dedup", "clean"),
    ],
)
def test_documents_come_from_the_last_stage_that_wrote_them(tmp_path, stages, before, found):
    assert documents_before(recipe(*stages), before).name == found

    with pytest.raises(ConfigurationError, match="'encode' needs documents"):
        documents_before(recipe("train_tokenizer"), "encode")
    with pytest.raises(ConfigurationError, match="expected the documents of a pipeline, got none"):
        last_documents(tmp_path)
    for stage in document_stages():
        (tmp_path / stage / "documents").mkdir(parents=True)
    for stage in stages:
        if stage in document_stages():
            write_documents(tmp_path / stage / "documents" / "0.arrow", [])
            assert last_documents(tmp_path).parent.name == stage


@dataclass(frozen=True)
class Work(Unit):
    error: Exception | None = field(default=None, compare=False)

    def run(self, inputs, output):
        with output.file("0.txt") as path:
            path.write_text("x")
            if self.error:
                raise self.error
        return {"documents_in": 3, "documents_out": 2}


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (StorageError("disk full"), 74, "disk full"),
        (OSError(28, "No space left"), 74, "0.txt: No space left; free some space"),
        (ZeroDivisionError("by 0"), 1, "ZeroDivisionError('by 0')"),
        (None, 65, "do not add up"),
    ],
)
def test_a_failed_unit_says_why(tmp_path, error, code, message):
    stage = ToyStage(Recipe(corpus="toy", output=tmp_path))
    unit = UnitRunner(stage, Pass("work", {"a": Work(error)}), {"a": {}})
    unit("a")
    record = UnitRecord.read(UnitRecord.path(stage.folder, "work", "a"))

    assert (record.status, record.exit_code, record.counts, record.outputs) == (
        "failed",
        code,
        {},
        {},
    )
    assert message in record.error
    assert ("Traceback" in record.trace) == (code == 1)
    assert (stage.folder / "0.txt").exists() == (error is None)
    assert (unit.has_result("a"), unit.has_started("a")) == (True, False)


def write(folder, unit, status="ok", work="main"):
    output = Output(folder)
    for name in ("a/0.txt", "tmp/0.txt"):
        with output.file(name) as path:
            path.write_text(f"{name} of {unit}")

    record = UnitRecord(work, f"{unit:06d}", {}, {}, status, {"documents_in": 2}, output.files)
    record.save(folder)
    return record


def test_records_come_back_without_those_that_failed_are_damaged_or_have_another_name(tmp_path):
    first, *_, last = kept = [
        write(tmp_path, 2),
        write(tmp_path, 9, "failed"),
        write(tmp_path, 11),
        write(tmp_path, 1, work="score"),
    ]
    folder = tmp_path / "records" / "main"
    (folder / "000001.json").write_bytes((folder / "000002.json").read_bytes()[:-20])
    (folder / "000010.json").write_bytes((folder / "000002.json").read_bytes())

    assert list(read_records(tmp_path)) == [first, *kept[2:]]
    assert UnitRecord.read(folder / "000004.json") is None
    assert "record of a failed unit" in kept[1].find_missing_output(tmp_path)
    assert len({each.digest(name) for each in (first, last) for name in ("a/", "tmp/", "")}) == 6
