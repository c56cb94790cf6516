"""Unknown keys that are found before the values are validated, against pydantic's own errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from clozeline import HOME
from clozeline.configuration.config import read_composed, validate
from clozeline.configuration.schema import iter_unknown_keys
from clozeline.errors import ConfigurationError
from clozeline.pipeline.recipe import Recipe
from clozeline.train.configuration.config import TrainConfig

RECIPES = HOME / "configs" / "recipes"
SCHEMAS: dict[str, Any] = {"train*.yaml": TrainConfig, "pipeline*.yaml": Recipe}


def iter_mappings(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yield each mapping in plain data and where it is."""
    if isinstance(data, dict):
        yield path, data
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in list(entries):
        yield from iter_mappings(value, (*path, str(key)))


@pytest.mark.parametrize("pattern", SCHEMAS)
def test_no_recipe_has_an_unknown_key(pattern: str) -> None:
    paths = sorted(RECIPES.rglob(pattern))
    assert len(paths) > 10
    unknown = {path: list(iter_unknown_keys(SCHEMAS[pattern], read_composed(SCHEMAS[pattern], path))) for path in paths}
    assert {path: keys for path, keys in unknown.items() if keys} == {}


@pytest.mark.parametrize("name", ["bert/train.yaml", "t5/train.yaml", "demo/pipeline.yaml", "web/pipeline.yaml"])
def test_a_key_is_unknown_where_pydantic_says_so(name: str) -> None:
    """A key that nothing knows, in each mapping of a recipe in turn; options and short forms are left to pydantic."""
    schema = SCHEMAS[f"{name.split('/')[1].split('.')[0].split('_')[0]}*.yaml"]
    data, found, left = read_composed(schema, RECIPES / name), 0, set()
    for path, mapping in list(iter_mappings(data)):
        mapping["zzz"] = 1
        unknown = list(iter_unknown_keys(schema, data))
        with pytest.raises(ValidationError) as caught:
            TypeAdapter(schema).validate_python(data)
        errors = [".".join(map(str, one["loc"])) + " " + one["msg"] for one in caught.value.errors()]
        assert any("zzz" in error for error in errors), "pydantic knows no key of this name"
        if unknown:
            assert unknown == [(*path, "zzz")]
            assert any(".".join(unknown[0]) in error for error in errors)
            found += 1
        else:
            left.add(path[0])
        del mapping["zzz"]
    assert found >= 3
    assert left <= {"model", "optimizer", "schedule", "clean", "dedup", "train_tokenizer", "corrupt", "input"}


@pytest.mark.parametrize(
    ("data", "meant"),
    [
        ({"stepz": 3}, "did you mean 'steps'?"),
        ({"zero": {"stag": 1}}, "did you mean 'zero.stage'?"),
        ({"data": {"steps": 3}}, "did you mean 'steps'?"),
        ({"micro_batch": 3}, "did you mean 'data.micro_batch'?"),
        ({"log": {"bogus": 1}}, "it has every, seconds, "),
        ({"bogus": 1}, "--help lists the keys"),
    ],
)
def test_the_nearest_key_is_named(data: dict[str, Any], meant: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        validate(TrainConfig, data, "f")
    assert f"'; {meant}" in str(caught.value)
