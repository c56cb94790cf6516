"""Facts that every stage declares, and records."""

from dataclasses import replace

import pytest

from clozeline.configuration.config import validate
from clozeline.pipeline.execution.stages import (
    check_recipe,
    document_stages,
    documents_before,
    last_documents,
    tokenizer_stage,
)
from clozeline.pipeline.execution.unit_record import UnitRecord, read_records
from clozeline.pipeline.ingest.documents.files import write_documents
from clozeline.pipeline.recipe import Recipe
from tests.pipeline.execution.toy_stage import run_toy
from tests.refusals import refused


def recipe(*stages, **keys):
    keys |= {stage: [{"name": "masked_lm"}] if stage == "corrupt" else {} for stage in stages}
    return validate(Recipe, {"corpus": "c", "output": "out", **keys}, "test")


@pytest.mark.parametrize(("stage", "lacking"), [("dedup", "clean"), ("corrupt", "group")])
def test_a_stage_that_lacks_another_is_named(stage, lacking):
    with refused(f"key '{stage}' .* needs the key '{lacking}'"):
        check_recipe(recipe(stage))
    check_recipe(recipe("clean", "train_tokenizer", "encode"))


def test_one_stage_gives_the_tokenizer():
    assert tokenizer_stage(recipe("clean", "train_tokenizer", "encode")).name == "train_tokenizer"

    both = recipe("train_tokenizer", tokenizer={"path": "vocab.txt"})
    for chosen, said in ((recipe("encode"), "none"), (both, "train_tokenizer and")):
        with refused(f"one of the keys .*, got {said}"):
            tokenizer_stage(chosen)


def test_documents_come_from_the_last_stage_that_wrote_them(tmp_path):
    both = recipe("clean", "dedup")
    assert documents_before(both, "train_tokenizer").name == "dedup"
    assert documents_before(both, "dedup").name == "clean"

    with refused("'encode' needs documents"):
        documents_before(recipe("train_tokenizer"), "encode")
    with refused("expected the documents of a pipeline, got none"):
        last_documents(tmp_path)
    for stage in document_stages():
        (tmp_path / stage / "documents").mkdir(parents=True)
    for stage in ("clean", "dedup"):
        write_documents(tmp_path / stage / "documents" / "0.arrow", [])
        assert last_documents(tmp_path).parent.name == stage

    # lost documents of the last stage are not replaced by those of an earlier one
    (tmp_path / "dedup" / "records").mkdir()
    (tmp_path / "dedup" / "documents" / "0.arrow").unlink()
    assert last_documents(tmp_path).parent.name == "dedup"


def test_records_that_failed_are_damaged_or_have_another_name_do_not_count(tmp_path):
    run_toy(tmp_path)
    folder = tmp_path / "dedup"
    before = list(read_records(folder))
    first, second, third, *_ = sorted((folder / "records/square").iterdir())
    first.write_bytes(first.read_bytes()[:-20])
    second.write_bytes(third.read_bytes())
    failed = replace(UnitRecord.read(third), status="failed", error="x" * 200_000)
    failed.save(folder)

    assert len(before) == 8
    assert UnitRecord.read(third) == failed
    assert [*read_records(folder)] == [
        each for each in before if each.unit > failed.unit or each.pass_name == "main"
    ]
    assert "record of a failed unit" in failed.find_missing_output(folder)
    assert UnitRecord.read(folder / "records/square/9.json") is None
    assert not run_toy(tmp_path).skipped
    assert len(list(read_records(folder, "square", "00000"))) == 6
