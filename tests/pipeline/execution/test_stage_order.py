"""The order of stages, and what a stage finds in those before it."""

from __future__ import annotations

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.stage_order import (
    all_stages,
    check_recipe,
    document_stages,
    documents_folder,
    last_documents,
    stages_of,
    tokenizer_stage,
)
from clozeline.pipeline.ingest.documents.files import write_documents
from clozeline.pipeline.recipe import Recipe, part_of_stage


def recipe(*stages):
    keys = {stage: [{"name": "masked_lm"}] if stage == "corrupt" else {} for stage in stages}
    return validate(Recipe, {"corpus": "c", "output": "out", **keys}, "test")


def test_stages_have_places_of_their_own():
    stages = [
        "clean", "dedup", "decontaminate", "train_tokenizer", "tokenizer", "encode", "balance", "group", "corrupt",
        "tasks",
    ]  # fmt: skip
    assert all_stages() == stages
    assert all(part_of_stage(name, "Stage").name == name for name in all_stages())


def test_a_recipe_has_the_stages_whose_keys_it_has_in_their_order():
    assert stages_of(recipe("encode", "clean")) == ["clean", "encode"]
    with pytest.raises(ConfigurationError, match="the recipe has no key 'dedup'"):
        recipe("clean").config_of("dedup")


@pytest.mark.parametrize(
    ("stages", "stage", "lacking"),
    [
        (["train_tokenizer"], "train_tokenizer", "clean"),
        (["dedup"], "dedup", "clean"),
        (["corrupt"], "corrupt", "group"),
    ],
)
def test_a_stage_that_lacks_another_is_named(stages, stage, lacking):
    with pytest.raises(ConfigurationError, match=f"key '{stage}' needs the key '{lacking}' too"):
        check_recipe(recipe(*stages))
    check_recipe(recipe("clean", "train_tokenizer", "encode"))


@pytest.mark.parametrize(("giving", "said"), [((), "none"), (("train_tokenizer", "tokenizer"), "train_tokenizer and")])
def test_one_stage_gives_the_tokenizer(giving, said):
    keys = {"clean": {}, "encode": {}, **{stage: {} for stage in giving}}
    if "tokenizer" in giving:
        keys["tokenizer"] = {"path": "vocab.txt"}
    both = validate(Recipe, {"corpus": "c", "output": "out", **keys}, "test")
    with pytest.raises(ConfigurationError, match=f"one of the keys 'train_tokenizer' and 'tokenizer', got {said}"):
        tokenizer_stage(both)
    assert tokenizer_stage(recipe("clean", "train_tokenizer", "encode")).name == "train_tokenizer"


def test_documents_come_from_the_last_stage_that_wrote_them():
    assert documents_folder(recipe("clean", "dedup"), "train_tokenizer").name == "dedup"
    assert documents_folder(recipe("clean", "train_tokenizer"), "encode").name == "clean"
    assert documents_folder(recipe("clean", "dedup"), "dedup").name == "clean"
    with pytest.raises(ConfigurationError, match="'encode' needs documents"):
        documents_folder(recipe("train_tokenizer"), "encode")


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
