"""`~` at the beginning of the paths of a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clozeline.configuration.config import to_plain, validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.recipe import Recipe
from clozeline.train.configuration.data import DataConfig


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")


@pytest.mark.parametrize(
    ("given", "entry"),
    [
        ("~/in/*.gz", "/home/ada/in/*.gz"),
        (["~/a", "b"], ["/home/ada/a", "b"]),
        ("a/~/b", "a/~/b"),
        ("~", "/home/ada"),
        ("./~", "./~"),
    ],
)
def test_home_is_expanded_in_input_and_output(given: Any, entry: Any) -> None:
    recipe = validate(Recipe, {"corpus": "c", "input": {"path": given}, "output": "~/out"}, "f")
    assert recipe.input[0].path == entry
    assert recipe.output == Path("/home/ada/out")


def test_home_is_expanded_in_the_paths_of_sets() -> None:
    data = validate(DataConfig, {"shards": ["~/a", "b"], "heldout": {"x": "~/h"}, "store": {"cache_dir": "~/c"}}, "f")
    assert to_plain(data)["shards"] == ["/home/ada/a", "b"]
    assert data.heldout == {"x": Path("/home/ada/h")}
    assert data.store.cache_dir == Path("/home/ada/c")


def test_a_home_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="output: ~no-such-user/x: there is no such home folder"):
        validate(Recipe, {"corpus": "c", "output": "~no-such-user/x"}, "f")
