from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.configuration.config import save_yaml, to_plain, validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.growth import check_extension
from clozeline.pipeline.recipe import Recipe


def recipe_for(folder: Path, **changes) -> Recipe:
    plain = {"corpus": "c", "input": "x.txt", "output": str(folder), "clean": {"language": None}, "dedup": {}}
    return validate(Recipe, plain | changes, "test")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 2}, "in seed: expected 1, got 2"),
        ({"plan": {"unit_bytes": 5000}}, "in plan.unit_bytes: expected 268435456, got 5000"),
        ({"dedup": None}, "in dedup: expected {"),
        ({"limit": 5}, "leave limit out"),
        ({"input": []}, "expected old and new inputs"),
    ],
)
def test_another_recipe_is_named_by_its_key(tmp_path, changes, message):
    (tmp_path / "clean").mkdir()
    save_yaml(to_plain(recipe_for(tmp_path)), tmp_path / "clean/config.yaml")
    with pytest.raises(ConfigurationError) as error:
        check_extension(recipe_for(tmp_path, **changes), None)
    assert message in str(error.value)


def test_inputs_executor_and_flags_may_differ(tmp_path):
    (tmp_path / "out/clean").mkdir(parents=True)
    save_yaml(to_plain(recipe_for(tmp_path / "out")), tmp_path / "out/clean/config.yaml")
    inputs = [str(tmp_path / name) for name in ("x.txt", "y.txt")]
    for path in inputs:
        Path(path).write_text("some words\n")
    check_extension(recipe_for(tmp_path / "out", input=inputs, executor={"tasks": 3}, extend=True), None)


def test_one_stage_alone_cannot_grow(tmp_path):
    with pytest.raises(ConfigurationError, match="use `clozeline pipeline`"):
        check_extension(recipe_for(tmp_path), "clean")
