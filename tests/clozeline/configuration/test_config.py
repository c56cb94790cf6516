from __future__ import annotations

from pathlib import Path
from typing import Annotated
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from clozeline.configuration.config import (
    ONE_OR_MORE,
    Names,
    config_class,
    config_digest,
    load_config,
    to_plain,
    validate,
)
from clozeline.errors import ConfigurationError
from clozeline.pipeline.recipe import Recipe
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.configuration.data import DataConfig


@config_class
class Inner:
    rate: float = 1e-3
    """learning rate, above 0"""
    languages: tuple[str, ...] = ("en",)


@config_class
class Outer:
    steps: int
    """how many"""
    inner: Inner = Inner()
    others: list[Inner] | None = None
    path: Path = Path("a")


@pytest.fixture
def load(tmp_path):
    def run(text, *overrides):
        path = tmp_path / "c.yaml"
        path.write_text(text)
        return load_config(Outer, path, overrides)

    return run


def test_yaml_traps_are_closed(load):
    config = load("steps: 3\ninner: {rate: 3e-4, languages: [no, on, yes]}\n")
    assert config.inner.rate == 3e-4
    assert config.inner.languages == ("no", "on", "yes")


def test_overrides_reach_nested_keys_and_lists(load):
    config = load("steps: 3\nothers: [{}, {}]\n", "others.1.rate=.5", "path=crawl/**/*.warc.gz", "steps=7")
    assert config.others[1].rate == 0.5
    assert config.path == Path("crawl/**/*.warc.gz")
    assert config.steps == 7


def test_only_mappings_merge(load):
    """A list takes the place of a mapping, a mapping that of a list, and either that of null."""
    for before in ("null", "[{rate: 2.0}]", "{rate: 2.0}"):
        assert load(f"steps: 3\nothers: {before}\n", "others=[{rate: 1.0}]").others == [Inner(rate=1.0)]
    text = "steps: 3\ninner: {rate: 2.0}\n"
    assert load(text, "inner={languages: [de]}").inner == Inner(rate=2.0, languages=("de",))
    with pytest.raises(ConfigurationError, match="expected a valid array"):
        load("steps: 3\nothers: [{}]\n", "others={rate: 1.0}")


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        ("steps: 3\nsteps: 4\n", [], "twice"),
        ("steps: 3\nstepz: 4\n", [], "unknown key 'stepz'; did you mean 'steps'"),
        ("steps: 3\ninner: {rat: 1}\n", [], "did you mean 'inner.rate'"),
        ("steps: three\n", [], "steps: expected a valid integer, got 'three'"),
        ("steps: 1.5\n", [], "expected a valid integer"),
        ("steps: true\n", [], "expected a valid integer"),
        ("inner: {}\n", [], "'steps' is missing"),
        ("steps: 3\n", ["steps"], "expected key=value"),
        ("steps: 3\n", ["steps="], "'steps=': expected a value"),
        ("- 1\n", [], "expected keys and values, got list"),
        ("steps: [\n", [], "cannot be read as YAML"),
    ],
)
def test_mistakes_are_named(load, text, overrides, message):
    with pytest.raises(ConfigurationError, match=r"c\.yaml|^argument") as caught:
        load(text, *overrides)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        ("steps: 3\n", ["steps=x"], "command line: steps: expected a valid integer, got 'x'"),
        ("steps: x\n", ["inner.rate=1"], "FILE: steps: expected a valid integer, got 'x'"),
        ("steps: x\n", ["steps=y"], "command line: steps: expected a valid integer, got 'y'"),
        ("steps: 3\n", ["inner.rat=1"], "command line: unknown key 'inner.rat'; did you mean 'inner.rate'?"),
        ("steps: 3\n", ["inner={rat: 1}"], "command line: unknown key 'inner.rat'; did you mean 'inner.rate'?"),
        ("steps: 3\nwat: 1\n", ["inner.rat=5"], "FILE: unknown key 'wat'; it has steps, inner, others, path"),
        ("steps: 3\nwat: 1\n", ["inner.rat=5"], "command line: unknown key 'inner.rat'; did you mean 'inner.rate'?"),
        ("steps: x\n", ["inner=5"], "FILE: steps: expected a valid integer, got 'x'"),
        ("steps: x\n", ["inner=5"], "command line: inner: expected an object, got 5"),
        ("steps: 3\n", ["path=${nope}"], "command line: Interpolation key 'nope' not found"),
        ("steps: 3\npath: ${nope}\n", ["steps=4"], "FILE: Interpolation key 'nope' not found"),
        ("steps: 3\nothers: [{}]\n", ["others.x=4"], "command line: unknown key 'others.0.x'"),
        ("steps: 3\nothers: []\n", ["others.rate=4"], "argument 'others.rate=4': others has 0 entries"),
    ],
)
def test_a_mistake_is_blamed_on_its_own_side(load, tmp_path, text, overrides, message):
    with pytest.raises(ConfigurationError) as caught:
        load(text, *overrides)
    lines = str(caught.value).split("\n")
    assert any(line.startswith(message.replace("FILE", str(tmp_path / "c.yaml"))) for line in lines), lines


def test_the_command_line_repairs_what_the_file_has_wrong(load):
    assert load("steps: x\npath: ${nope}\n", "steps=4", "path=b").path == Path("b")


def test_missing_file_is_one_message(tmp_path):
    with pytest.raises(ConfigurationError, match="no such file"):
        load_config(Outer, tmp_path / "none.yaml")


@given(st.integers(1, 10**6), st.floats(1e-9, 1e9), st.lists(st.text("abcxyz", min_size=1), max_size=3))
def test_resolved_config_validates_to_itself(steps, rate, languages):
    config = Outer(steps=steps, inner=Inner(rate=rate, languages=tuple(languages)))
    assert validate(Outer, to_plain(config), "again") == config


def test_digest_ignores_key_order():
    assert config_digest({"a": 1, "b": [2]}) == config_digest({"b": [2], "a": 1})
    assert config_digest({"a": 1}) != config_digest({"a": 2})


def test_the_adapter_of_a_class_is_built_once_and_other_types_need_no_hash():
    """Pydantic builds the schema of a class of options again for each adapter."""
    with patch("clozeline.configuration.config.TypeAdapter", wraps=TypeAdapter) as built:
        config = config_class(type("Options", (), {"__annotations__": {"size": int}}))
        assert [validate(config, {"size": size}, "").size for size in (3, 4)] == [3, 4]
        assert to_plain(config(size=5)) == {"size": 5}
        assert built.call_count == 1
        assert validate(Annotated[int, ["no hash"]], 7, "") == 7


@pytest.fixture
def home(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")


@pytest.mark.usefixtures("home")
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
def test_home_is_expanded_in_input_and_output(given, entry):
    recipe = validate(Recipe, {"corpus": "c", "input": {"path": given}, "output": "~/out"}, "f")
    assert recipe.input[0].path == entry
    assert recipe.output == Path("/home/ada/out")


@pytest.mark.usefixtures("home")
def test_home_is_expanded_in_the_paths_of_sets():
    data = validate(DataConfig, {"shards": ["~/a", "b"], "heldout": {"x": "~/h"}}, "f")
    assert to_plain(data)["shards"] == ["/home/ada/a", "b"]
    assert data.heldout == {"x": Path("/home/ada/h")}


def test_a_home_that_does_not_exist_is_refused():
    with pytest.raises(ConfigurationError, match="output: ~no-such-user/x: there is no such home folder"):
        validate(Recipe, {"corpus": "c", "output": "~no-such-user/x"}, "f")


def test_one_value_is_a_list():
    names, paths = TypeAdapter(Names), TypeAdapter(Annotated[list[Path], ONE_OR_MORE])
    assert names.validate_python("a") == names.validate_python(["a"]) == ["a"]
    assert paths.validate_python("a") == [Path("a")]
    assert names.validate_python(["a", "b"]) == ["a", "b"]
    with pytest.raises(ValidationError):
        names.validate_python(3)


@pytest.mark.parametrize(
    ("data", "meant"),
    [
        ({"stepz": 3}, "did you mean 'steps'?"),
        ({"zero": {"stag": 1}}, "did you mean 'zero.stage'?"),
        ({"data": {"steps": 3}}, "did you mean 'steps'?"),
        ({"micro_batch": 3}, "did you mean 'data.micro_batch'?"),
        ({"log": {"bogus": 1}}, "it has every, tensorboard, "),
        ({"bogus": 1}, "--help lists the keys"),
    ],
)
def test_the_nearest_key_is_named(data, meant):
    with pytest.raises(ConfigurationError) as caught:
        validate(TrainConfig, data, "f")
    assert f"'; {meant}" in str(caught.value)
