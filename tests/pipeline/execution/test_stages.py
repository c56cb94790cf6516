"""Facts that every stage declares, and the words for amounts."""

import json
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
from clozeline.pipeline.execution.unit_record import (
    Output,
    UnitRecord,
    read_records,
    records,
)
from clozeline.pipeline.ingest.documents.files import write_documents
from clozeline.pipeline.recipe import Recipe
from tests.pipeline.execution.toy_stage import ToyStage


def recipe(*stages):
    keys = {stage: [{"name": "masked_lm"}] if stage == "corrupt" else {} for stage in stages}
    return validate(Recipe, {"corpus": "c", "output": "out", **keys}, "test")


@pytest.mark.parametrize(
    ("stage", "lacking"), [("train_tokenizer", "clean"), ("dedup", "clean"), ("corrupt", "group")]
)
def test_a_stage_that_lacks_another_is_named(stage, lacking):
    with pytest.raises(ConfigurationError, match=f"key '{stage}' .* needs the key '{lacking}'"):
        check_recipe(recipe(stage))
    check_recipe(recipe("clean", "train_tokenizer", "encode"))


@pytest.mark.parametrize(
    ("giving", "said"), [((), "none"), (("train_tokenizer", "tokenizer"), "train_tokenizer and")]
)
def test_one_stage_gives_the_tokenizer(giving, said):
    keys = {"clean": {}, "encode": {}, **{stage: {} for stage in giving}}
    if "tokenizer" in giving:
        keys["tokenizer"] = {"path": "vocab.txt"}
    both = validate(Recipe, {"corpus": "c", "output": "out", **keys}, "test")

    with pytest.raises(
        ConfigurationError, match=f"one of the keys 'train_tokenizer' and 'tokenizer', got {said}"
    ):
        tokenizer_stage(both)

    assert tokenizer_stage(recipe("clean", "train_tokenizer", "encode")).name == "train_tokenizer"


def folder_before(recipe, stage):
    return documents_before(recipe, stage, ["a"]).folder.name


def test_documents_come_from_the_last_stage_that_wrote_them():
    assert folder_before(recipe("clean", "dedup"), "train_tokenizer") == "dedup"
    assert folder_before(recipe("clean", "train_tokenizer"), "encode") == "clean"
    assert folder_before(recipe("clean", "dedup"), "dedup") == "clean"
    with pytest.raises(ConfigurationError, match="'encode' needs documents"):
        folder_before(recipe("train_tokenizer"), "encode")


def test_the_last_documents_are_those_of_the_last_stage_that_wrote_some(tmp_path):
    with pytest.raises(ConfigurationError, match="expected the documents of a pipeline, got none"):
        last_documents(tmp_path)
    for stage in document_stages():
        (tmp_path / stage / "documents").mkdir(parents=True)
    write_documents(tmp_path / "clean" / "documents" / "000000.arrow", [])

    assert last_documents(tmp_path) == tmp_path / "clean" / "documents"

    write_documents(tmp_path / "dedup" / "documents" / "000000.arrow", [])

    assert last_documents(tmp_path) == tmp_path / "dedup" / "documents"
    assert document_stages()[0] == "clean"


@dataclass(frozen=True)
class Work(Unit):
    number: int
    error: Exception | None = field(default=None, compare=False)
    lose: int = 0

    def run(self, inputs, output):
        with output.file(f"{self.number}.txt") as path:
            path.write_text("x")
            if self.error:
                raise self.error
        return {"documents_in": 3, "documents_out": 3 - self.lose}


def runner(tmp_path, **options):
    units = {str(number): Work(number, **options) for number in range(3)}
    stage = ToyStage(Recipe(corpus="toy", output=tmp_path))
    return UnitRunner(stage, Pass("work", units), {name: {} for name in units})


def load(folder, unit):
    return UnitRecord.read(UnitRecord.path(folder / "dedup", "work", unit))


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"error": StorageError("disk full")}, 74, "disk full"),
        (
            {"error": OSError(28, "No space left on device")},
            74,
            "0.txt: No space left on device; free some space",
        ),
        ({"error": OSError(2, "No such file", "/in/a")}, 74, "/in/a: No such file; copy it again"),
        (
            {"error": OSError(13, "Permission denied", "/in/a")},
            74,
            "/in/a: Permission denied; change its permissions",
        ),
        ({"error": ZeroDivisionError("by 0")}, 1, "ZeroDivisionError('by 0')"),
        ({"error": MemoryError("9 GiB")}, 77, "out of memory (9 GiB)"),
        ({"lose": 1}, 65, "do not add up"),
    ],
)
def test_a_failed_unit_says_why(tmp_path, options, code, message):
    unit = runner(tmp_path, **options)
    unit("0")
    record = load(tmp_path, "0")

    assert (record.status, record.exit_code, record.counts, record.outputs) == (
        "failed",
        code,
        {},
        {},
    )
    assert message in record.error
    assert ("Traceback" in record.trace) == (code == 1)
    assert (tmp_path / "dedup" / "0.txt").exists() == ("lose" in options)
    assert (unit.has_result("0"), unit.has_started("0")) == (True, False)


def test_a_process_that_ends_in_the_middle_leaves_its_mark(tmp_path):
    unit = runner(tmp_path, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        unit("2")

    assert (
        unit.has_started("2"),
        unit.has_started("1"),
        unit.has_result("2"),
    ) == (True, False, False)

    unit.fail("2", "its worker process died")
    record = load(tmp_path, "2")

    assert (record.status, record.exit_code, record.error) == (
        "failed",
        69,
        "its worker process died",
    )


def write(folder, unit=0, pass_name="main", status="ok", files=("a/0.txt", "tmp/0.txt")):
    output = Output(folder)
    for name in files:
        with output.file(name) as path:
            path.write_text(f"{name} of {unit}")

    counts = {"documents_in": 2}
    name = f"{unit:06d}"
    record = UnitRecord(pass_name, name, {}, {}, status, counts, output.files)
    record.save(folder)
    return record


def test_a_record_is_read_as_it_was_saved(tmp_path):
    record = write(tmp_path, 3, "merge")
    path = tmp_path / "records" / "merge" / "000003.json"

    assert UnitRecord.read(path) == record
    assert json.loads(path.read_text()).keys() <= {*UnitRecord.__slots__, "checksum"}

    path.write_text(path.read_text()[:-20])

    assert UnitRecord.read(path) is None
    assert UnitRecord.read(path.with_name("000004.json")) is None


@pytest.mark.parametrize(
    ("name", "change", "complete"),
    [
        ("a/0.txt", "", (True, True)),
        ("a/0.txt", "shorter", (False, False)),
        ("a/0.txt", "flipped", (True, False)),
        ("a/0.txt", "removed", (False, False)),
        ("tmp/0.txt", "removed", (True, True)),
    ],
)
def test_a_record_is_complete_with_its_outputs(tmp_path, name, change, complete):
    """Without hashes, and with them; intermediates may be missing."""
    record = write(tmp_path)
    path = tmp_path / name
    text = path.read_text()

    if change == "removed":
        path.unlink()
    elif change:
        path.write_text(text[1:] if change == "shorter" else text[::-1])

    gaps = [record.find_missing_output(tmp_path, verify=verify) for verify in (False, True)]

    assert tuple(gap == "" for gap in gaps) == complete
    assert all(gap.startswith(str(path)) for gap in gaps if gap)
    assert record.lacks_intermediates(tmp_path) == (name == "tmp/0.txt")


def test_the_digest_is_that_of_what_is_published(tmp_path):
    first = write(tmp_path, 0)
    second = write(tmp_path, 0, files=("a/0.txt",))
    assert first.digest("a/") == second.digest("a/") == second.digest() != first.digest()
    assert first.digest("a/") != write(tmp_path, 1).digest("a/")


def test_a_file_without_a_record_of_its_name_and_a_failed_unit_are_left_out(tmp_path):
    kept = [
        write(tmp_path, 2),
        write(tmp_path, 9, status="failed"),
        write(tmp_path, 11),
        write(tmp_path, 1, "score"),
    ]

    folder = tmp_path / "records" / "main"
    (folder / "000001.json").write_text("{")
    (folder / "000010.json").write_bytes((folder / "000002.json").read_bytes())

    assert list(read_records(tmp_path)) == kept
    assert records(tmp_path, "main") == [kept[0], kept[2]]
    assert "record of a failed unit" in kept[1].find_missing_output(tmp_path)
