"""Runs of the stage with all types of duplicates: tasks and kills change no byte, and each edit is shown."""

import json
import shutil

import pytest

from clozeline.pipeline.execution.recipe_command import main, run_stage
from tests.pipeline.dedup.repeated_texts import texts
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.run_counts import check_run

RECIPE = """
corpus: repeats
plan: {unit_bytes: 12000, shard_bytes: 20000}
clean: {language: null, filters: []}
dedup: {lines: {max_documents: 2, keep: first}, spans: {sentences: 4}}
"""


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repeats")
    (folder / "recipe.yaml").write_text(RECIPE)
    rows = texts(5, 160)
    for number in range(2):
        lines = (json.dumps({"text": text}) for text in rows[number::2])
        (folder / f"{number}.jsonl").write_text("\n".join(lines) + "\n")
    return ["--config", str(folder / "recipe.yaml"), f"input={folder}/*.jsonl"]


@pytest.fixture(scope="module")
def finished(start, tmp_path_factory):
    output = tmp_path_factory.mktemp("finished") / "out"
    assert main([*start, f"output={output}"]) == 0
    return output


def test_counts_are_those_of_the_documents(finished):
    assert check_run(finished)


def test_tasks_change_no_byte(finished, start, tmp_path):
    shutil.copytree(finished / "clean", tmp_path / "out" / "clean")
    words = [*start, f"output={tmp_path / 'out'}", "executor.tasks=7", "executor.workers=1"]
    assert run_stage("dedup", words) == 0
    assert tree(tmp_path / "out" / "dedup") == tree(finished / "dedup")
