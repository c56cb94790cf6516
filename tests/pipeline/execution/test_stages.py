"""Facts that every stage declares, and the words for amounts."""

from __future__ import annotations

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.plan import Plan
from clozeline.pipeline.execution.stages import Row, amount
from clozeline.pipeline.recipe import Recipe
from tests.pipeline.execution.toy_stage import ToyStage


def test_amounts_have_their_noun() -> None:
    assert [amount(number, "document") for number in (0, 1, 2, 2000)] == [
        "0 documents", "1 document", "2 documents", "2,000 documents",
    ]  # fmt: skip
    assert Row("1 number") == Row("1 number", "–", ())


def test_the_config_of_a_stage_is_its_key_of_the_recipe(tmp_path) -> None:
    recipe = validate(Recipe, {"corpus": "toy", "output": str(tmp_path), "dedup": {"near": None}}, "test")
    stage = ToyStage(recipe)
    assert stage.folder == tmp_path / "dedup"
    assert stage.config is stage.config
    assert stage.config.near is None
    with pytest.raises(ConfigurationError, match="the recipe has no key 'dedup'"):
        _ = ToyStage(Recipe(corpus="toy", output=tmp_path)).config


def test_a_plan_that_is_set_is_the_one_that_is_used(tmp_path) -> None:
    stage = ToyStage(Recipe(corpus="toy", output=tmp_path))
    plan = Plan.__new__(Plan)
    stage.plan = plan
    assert stage.plan is plan
