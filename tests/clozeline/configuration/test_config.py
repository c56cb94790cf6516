"""Configurations: files with their bases and variants, mistakes that are named, and the keys of a
class."""

from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from clozeline.configuration import config
from clozeline.configuration.config import (
    config_class,
    config_digest,
    load_config,
    read_composed,
    to_data,
    validate,
)
from clozeline.configuration.described_keys import describe
from clozeline.errors import ConfigurationError
from clozeline.extension_list import HIDE
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.registries import SENTENCES
from clozeline.registry import Component
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.configuration.data import DataConfig
from tests.refusals import refused


@config_class
class Inner:
    rate: float = 1e-3
    """learning rate,
    above 0"""
    languages: tuple[str, ...] = ("en",)


@config_class
class Outer:
    steps: int
    """how many"""
    inner: Inner = Inner()
    others: list[Inner] | None = None
    path: Path = Path("a")


def test_known_keys_are_listed_once_for_all_unknown_ones(monkeypatch):
    listed = []
    monkeypatch.setattr(config, "describe", lambda kind: listed.append(kind) or describe(kind))
    with refused("unknown key 'x99'"):
        validate(Outer, {f"x{n}": 1 for n in range(100)}, "")

    assert listed == [Outer]


@pytest.fixture
def load(tmp_path):
    def run(text, *overrides):
        path = tmp_path / "c.yaml"
        if text is not None:
            path.write_text(text)
        return load_config(Outer, path, overrides)

    return run


def test_a_file_of_any_keys_is_read_as_a_mapping(tmp_path):
    """`model.init_from` reads the configuration of another run in this way."""
    path = tmp_path / "config.yaml"
    path.write_text("model: {dim: 8}\nanything: [1, 2]\n")

    assert load_config(dict[str, Any], path) == {"model": {"dim": 8}, "anything": [1, 2]}


def test_overrides_reach_nested_keys_and_lists(load):
    """And repair what the file has wrong."""
    config = load(
        "steps: x\nothers: [{}, {}]\npath: ${nope}",
        "others.1.rate=.5",
        "path=a/**/*.warc.gz",
        "steps=7",
    )

    assert (
        config.others[1].rate,
        config.path,
        config.steps,
    ) == (0.5, Path("a/**/*.warc.gz"), 7)


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        ("steps: 3\nsteps: 4\n", [], "FILE: cannot be read as YAML: key 'steps' is given twice"),
        ("steps: 3\nstepz: 4\n", [], "FILE: unknown key 'stepz'; did you mean 'steps'"),
        (
            "steps: 3\ninner: {rat: 1}\n",
            [],
            "FILE: unknown key 'inner.rat'; did you mean 'inner.rate'",
        ),
        ("steps: true\n", [], "FILE: steps: expected a valid integer"),
        ("inner: {}\n", [], "FILE: 'steps' is missing"),
        ("steps: 3\n", ["steps="], "argument 'steps=': expected a value"),
        ("- 1\n", [], "FILE: expected keys and values, got list"),
        ("steps: [\n", [], "FILE: cannot be read as YAML"),
        (None, [], "--config FILE: no such file"),
        ("steps: 3\n", ["steps=x"], "command line: steps: expected a valid integer, got 'x'"),
        ("steps: x\n", ["steps=y"], "command line: steps: expected a valid integer, got 'y'"),
        (
            "steps: 3\n",
            ["inner.rat=1"],
            "command line: unknown key 'inner.rat'; did you mean 'inner.rate'?",
        ),
        (
            "steps: 3\nwat: 1\n",
            ["inner.rat=5"],
            "FILE: unknown key 'wat'; the keys here are steps, inner, others, path",
        ),
        (
            "steps: 3\nwat: 1\n",
            ["inner.rat=5"],
            "command line: unknown key 'inner.rat'; did you mean 'inner.rate'?",
        ),
        ("steps: x\n", ["inner=5"], "FILE: steps: expected a valid integer, got 'x'"),
        ("steps: x\n", ["inner=5"], "command line: inner: expected keys (inner.rate"),
        ("steps: 3\npath: ${nope}\n", ["steps=4"], "FILE: path: this reference leads to no value"),
        ("steps: 3\npath: ${path}\n", [], "FILE: path: this reference leads to no value"),
        ('steps: 3\ninner: {"": 1}\n', [], "FILE: unknown key 'inner.\"\"'"),
        ("steps: 3\n1: 2\n", [], "FILE: unknown key '1'"),
        ('steps: 3\ninner: {languages: ["\\ud800"]}\n', [], "FILE: inner.languages.0: expected"),
        ("steps: 3\nothers: [{}]\n", ["others.x=4"], "command line: unknown key 'others.0.x'"),
        (
            "steps: 3\nothers: []\n",
            ["others.rate=4"],
            "argument 'others.rate=4': others has 0 entries",
        ),
    ],
)
def test_a_mistake_is_blamed_on_its_own_side(load, tmp_path, text, overrides, message):
    with pytest.raises(ConfigurationError) as caught:
        load(text, *overrides)
    lines = str(caught.value).replace(str(tmp_path / "c.yaml"), "FILE").split("\n")
    assert any(line.startswith(message) for line in lines), lines


@given(
    st.integers(1, 10**6), st.floats(1e-9, 1e9), st.lists(st.text("abcxyz", min_size=1), max_size=3)
)
def test_resolved_config_validates_to_itself(steps, rate, languages):
    config = Outer(steps=steps, inner=Inner(rate=rate, languages=tuple(languages)))
    plain = to_data(config)

    assert validate(Outer, plain, "again") == config
    assert (
        config_digest(plain)
        == config_digest(dict(reversed(plain.items())))
        != config_digest({**plain, "steps": 0})
    )


@pytest.mark.parametrize(
    ("given", "entry"),
    [
        ("~/in/*.gz", "/home/ada/in/*.gz"),
        (["~/a", "b"], ["/home/ada/a", "b"]),
        ("a/~/b", "a/~/b"),
        ("./~", "./~"),
    ],
)
def test_home_is_expanded_in_paths(given, entry, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    recipe = validate(
        Recipe,
        {
            "corpus": "c",
            "input": {"path": given},
            "output": "~/out",
        },
        "f",
    )

    assert (recipe.input[0].path, recipe.output) == (entry, Path("/home/ada/out"))

    data = validate(
        DataConfig,
        {
            "shards": ["~/a", "b"],
            "heldout": {"x": "~/h"},
        },
        "f",
    )

    assert to_data(data)["shards"] == ["/home/ada/a", "b"]
    assert data.heldout == {"x": Path("/home/ada/h")}

    with refused("output: ~no-such-user/x: there is no such home folder"):
        validate(Recipe, {"corpus": "c", "output": "~no-such-user/x"}, "f")


@pytest.mark.parametrize(
    ("data", "meant"),
    [
        ({"zero": {"stag": 1}}, "did you mean 'zero.stage'?"),
        ({"data": {"steps": 3}}, "did you mean 'steps'?"),
        ({"micro_batch": 3}, "did you mean 'data.micro_batch'?"),
        ({"log": {"bogus": 1}}, "the keys here are every, tensorboard, "),
        ({"bogus": 1}, "--help lists the keys"),
    ],
)
def test_the_nearest_key_is_named(data, meant):
    with pytest.raises(ConfigurationError) as caught:
        validate(TrainConfig, data, "f")
    assert f"'; {meant}" in str(caught.value)


@config_class
class Keys:
    """A configuration with a key of every kind."""

    steps: int
    inner: Inner = Inner()
    others: list[Inner] | None = None
    by_name: dict[str, Inner] = field(default_factory=dict)
    mode: Literal["train", "heldout"] = "train"
    path: Path | None = None
    free: Any = None
    sentences: Annotated[Component, SENTENCES] = field(
        default_factory=lambda: SENTENCES.resolve("regex")
    )
    long: str = "x" * 80
    hidden: int = Field(default=1, exclude=True)


def test_every_kind_of_key_is_described_as_people_write_it():
    found = {key: (kind, default, text) for key, kind, default, text in describe(Keys)}

    assert found == {
        "steps": ("int", "required", ""),
        "inner": ("mapping", "", ""),
        "inner.rate": ("float", "0.001", "learning rate, above 0"),
        "inner.languages": ("list of str", '["en"]', ""),
        "others": ("list of mapping or null", "", ""),
        "others.rate": ("float", "0.001", "learning rate, above 0"),
        "others.languages": ("list of str", '["en"]', ""),
        "by_name": ("mapping to mapping", "", ""),
        "by_name.NAME.rate": ("float", "0.001", "learning rate, above 0"),
        "by_name.NAME.languages": ("list of str", '["en"]', ""),
        "mode": ("train or heldout", '"train"', ""),
        "path": ("path or null", "null", ""),
        "free": ("mapping", "null", ""),
        "sentences": ("name, or mapping with name", "regex", ""),
        "long": ("str", '"' + "x" * 56 + "...", ""),
    } | {key: value for key, value in found.items() if key.startswith("sentences.")}
    assert len(found["long"][1]) == 60


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder / f"{next(iter(files))}.yaml"


def test_a_file_changes_its_base_and_a_variant_changes_the_file(tmp_path):
    path = write(
        tmp_path,
        own="{base: middle.yaml, steps: 3, data: {lanes: 4}, variants: {small: {base: low.yaml, "
        "model: {dim: 8}}}}",
        middle="{base: low.yaml, steps: 2, seed: 2, variants: {lost: {}}}",
        low="{steps: 1, seed: 1, data: {lanes: 2, micro_batch: 2}, optimizer: {name: adamw, eps: "
        "1.0e-6}}",
    )

    expected = {"steps": 3, "seed": 2, "data": {"lanes": 4, "micro_batch": 2}}
    expected["optimizer"] = {"name": "adamw", "eps": 1e-6}

    assert read_composed(TrainConfig, path) == expected

    small = expected | {
        "steps": 1,
        "seed": 1,
        "data": {"lanes": 2, "micro_batch": 2},
        "model": {"dim": 8},
    }

    assert read_composed(TrainConfig, path, ["variant=small", "steps=9"]) == small

    with refused("no variant 'lost'; known: small"):
        read_composed(TrainConfig, path, ["variant=lost"])


def test_algorithms_families_names_and_lists_replace_those_of_the_base(tmp_path):
    path = write(
        tmp_path,
        own="{base: low.yaml, optimizer: {name: sgd}, model: {family: decoder, heads: {lm: 1.0}}, "
        "freeze: [body]}",
        low="{optimizer: {name: adamw, eps: 1.0}, freeze: [x], "
        "model: {family: encoder, dim: 8, heads: {masked_lm: 1.0}}}",
    )

    model = {"family": "decoder", "heads": {"lm": 1.0}}

    assert read_composed(TrainConfig, path) == {
        "optimizer": {"name": "sgd"},
        "model": model,
        "freeze": ["body"],
    }

    path.write_text("{base: low.yaml, model: {family: encoder, layers: 2, heads: {sentence: 1.0}}}")
    merged = {"family": "encoder", "dim": 8, "layers": 2, "heads": {"sentence": 1.0}}

    assert read_composed(TrainConfig, path)["model"] == merged


def test_each_command_takes_its_part(tmp_path):
    path = write(
        tmp_path,
        own="{pipeline: {corpus: a}, train: {base: low.yaml, steps: 2}}",
        low="{train: {seed: 3}}",
    )

    assert read_composed(TrainConfig, path) == {"seed": 3, "steps": 2}
    assert load_config(Recipe, path, ["output=x"]).corpus == "a"

    path.write_text("{pipeline: {corpus: a}}")
    with refused("expected the key 'train', got pipeline"):
        read_composed(TrainConfig, path)


def test_a_file_of_a_command_of_an_extension_is_known_while_it_is_there(tmp_path, monkeypatch):
    path = write(tmp_path, own="{flops: 1e18}")
    with refused("is a recipe of `clozeline study`, not of"):
        read_composed(TrainConfig, path)

    monkeypatch.setenv(HIDE, "studies")
    assert read_composed(TrainConfig, path) == {"flops": 1e18}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{base: own.yaml}", "circle"),
        ("{base: none}", "no such file; expected a path ending in .yaml, or: .*pretraining"),
        ("{base: ../none.yaml}", "no such file"),
        ("{base: [a]}", "expected a name or a path"),
        ("{variants: [a]}", "variants: expected a mapping"),
    ],
)
def test_mistakes_in_bases_are_named(tmp_path, text, said):
    with refused(f"own.yaml: .*{said}"):
        read_composed(TrainConfig, write(tmp_path, own=text))


def test_sizes_are_models_that_other_keys_change(tmp_path):
    path = write(
        tmp_path,
        own="{model: {family: encoder, dim: 8, layers: 1, attention_heads: 1, ffn_dim: 8, heads: {}}}",
    )
    words = ["data.shards=x", "output=y"]
    bert = load_config(TrainConfig, path, [*words, "model=size:bert_base"]).model

    assert (bert.dim, bert.layers, bert.type_vocab_size, [*bert.heads]) == (
        768,
        12,
        2,
        ["masked_lm"],
    )

    changed = [
        "model=size:bert_base",
        "model.layers=6",
        "model.position.maximum=64",
        "model.heads={sentence: 1.0}",
    ]

    small = load_config(TrainConfig, path, [*words, *changed]).model

    assert (
        small.dim,
        small.layers,
        [*small.heads],
    ) == (768, 6, ["sentence"])
    assert (small.position.kind, small.position.maximum) == ("learned", 64)

    with refused("configs/models has no size 'bert_bse'; did you mean 'bert_base'"):
        load_config(TrainConfig, path, [*words, "model=size:bert_bse"])

    with refused("size or family, got both"):
        load_config(TrainConfig, path, [*words, "model.size=bert_base"])
