"""Effect of a mapping on the command line on the one in the file."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from clozeline.configuration.config import config_class, validate
from clozeline.configuration.one_or_more import ONE_OR_MORE
from clozeline.configuration.overrides import override
from clozeline.errors import ConfigurationError
from clozeline.pipeline.recipe import Recipe
from clozeline.registry import Chosen, OneOf, choose


@config_class
class Part:
    weight: float = 1.0
    tags: dict[str, int] = field(default_factory=dict)


@config_class
class Whole:
    sentences: Annotated[Chosen, OneOf("clozeline.pipeline.text.sentences")] = field(
        default_factory=lambda: choose("clozeline.pipeline.text.sentences", "regex")
    )
    part: Part = Part()
    parts: dict[str, Part] | None = None
    listed: list[Part] = field(default_factory=list)


BEFORE: dict[str, Any] = {
    "sentences": {"name": "regex", "option": 1},
    "part": {"weight": 2.0, "tags": {"a": 1, "b": 2}},
    "parts": {"x": {"weight": 3.0, "tags": {"a": 1}}, "y": {}},
    "listed": [{"weight": 4.0, "tags": {"a": 1}}],
}


@pytest.mark.parametrize(
    ("argument", "key", "after"),
    [
        ("sentences={name: lines}", "sentences", {"name": "lines"}),
        ("sentences={option: 2}", "sentences", {"name": "regex", "option": 2}),
        ("part={weight: 5.0}", "part", {"weight": 5.0, "tags": {"a": 1, "b": 2}}),
        ("part={tags: {c: 3}}", "part", {"weight": 2.0, "tags": {"c": 3}}),
        ("part.tags={c: 3}", "part", {"weight": 2.0, "tags": {"c": 3}}),
        ("part.tags.c=3", "part", {"weight": 2.0, "tags": {"a": 1, "b": 2, "c": 3}}),
        ("part.tags.a=null", "part", {"weight": 2.0, "tags": {"b": 2}}),
        ("part.weight=null", "part", {"weight": None, "tags": {"a": 1, "b": 2}}),
        ("parts={z: {}}", "parts", {"z": {}}),
        ("parts.x={weight: 5.0}", "parts", {"x": {"weight": 5.0, "tags": {"a": 1}}, "y": {}}),
        ("parts.x.tags.a=null", "parts", {"x": {"weight": 3.0, "tags": {}}, "y": {}}),
        ("parts.y=null", "parts", {"x": {"weight": 3.0, "tags": {"a": 1}}}),
        ("parts=null", "parts", None),
        ("listed.0.tags={b: 2}", "listed", [{"weight": 4.0, "tags": {"b": 2}}]),
        ("listed.0={tags: {b: 2}}", "listed", [{"weight": 4.0, "tags": {"b": 2}}]),
    ],
)
def test_a_mapping_replaces_merges_or_loses_an_entry(argument: str, key: str, after: Any) -> None:
    found = override(Whole, BEFORE, [argument], "here")
    assert found == {**BEFORE, key: after}


def test_an_entry_that_is_not_there_cannot_be_removed() -> None:
    with pytest.raises(ConfigurationError, match="no 'z' to remove; parts has: x, y"):
        override(Whole, BEFORE, ["parts.z=null"], "here")


def test_overrides_apply_in_their_order() -> None:
    found = override(Whole, BEFORE, ["parts={z: {weight: 1.0}}", "parts.z.weight=2.0", "parts.w={}"], "here")
    assert found["parts"] == {"z": {"weight": 2.0}, "w": {}}


def test_keys_of_stages_are_known() -> None:
    """`clean.sources` is a mapping of names below a class that the stage's folder holds."""
    before = {"clean": {"sources": {"a": {"filters": []}, "b": {"filters": []}}, "keep_text": 0.5}}
    found = override(Recipe, before, ["clean={sources: {c: {filters: []}}}"], "here")
    assert found == {"clean": {"sources": {"c": {"filters": []}}, "keep_text": 0.5}}


@pytest.mark.parametrize(
    ("before", "arguments", "after"),
    [
        ({"listed": [{"weight": 1.0}, {}]}, ["listed.weight=5.0"], {"listed": [{"weight": 5.0}, {"weight": 5.0}]}),
        ({"listed": [{}, {}]}, ["listed.1.weight=5.0"], {"listed": [{}, {"weight": 5.0}]}),
        ({"sentences": "lines"}, ["sentences.option=2"], {"sentences": {"name": "lines", "option": 2}}),
        (
            {},
            ["sentences.option=2"],
            {"sentences": {**choose("clozeline.pipeline.text.sentences", "regex").plain(), "option": 2}},
        ),
        ({"part": "${nope}"}, ["part=null"], {"part": None}),
        ({}, ["part.weight=5.0", "part={tags: {}}"], {"part": {"tags": {}, "weight": 5.0}}),
    ],
)
def test_keys_below_lists_and_words(before, arguments, after):
    assert override(Whole, before, arguments, "f") == after


@pytest.mark.parametrize(
    ("before", "arguments"),
    [
        ("a.jsonl", ["input.text_key=body"]),
        ({"path": "a.jsonl"}, ["input.text_key=body"]),
        ([{"path": "a.jsonl"}], ["input.text_key=body"]),
        (["a.jsonl"], ["input.text_key=body"]),
        (None, ["input.text_key=body", "input=a.jsonl"]),
    ],
)
def test_an_option_of_the_reader_reaches_every_form_of_input(before, arguments):
    data = {"corpus": "c", **({} if before is None else {"input": before})}
    (entry,) = validate(Recipe, override(Recipe, data, arguments, "f"), "f").input
    assert (entry.path, entry.options) == ("a.jsonl", {"text_key": "body"})


WORDS = st.sampled_from(["a", "b", "???", "${a}", "${b.a}", "$a", "\\${a}", "x${a}"])
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", 1]), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["a", "b", 1]), PLAIN, max_size=3))
@example({"a": {"b": [1, "x"]}, "b": ["${a}", "\\${a}"]})
@example({"a": {("of", "several"): 1}})
def test_a_file_without_overrides_is_what_omegaconf_makes_of_it(data: dict[Any, Any]) -> None:
    """The short way of plain data; what is returned may be changed."""
    try:
        expected = OmegaConf.to_container(OmegaConf.create(data), resolve=True)
    except OmegaConfBaseException:
        with pytest.raises(ConfigurationError):
            override(Whole, data, [], "a file")
        return
    found = override(Whole, data, [], "a file")
    assert found == expected
    for key, value in data.items():
        assert found[key] is not value or not isinstance(value, (dict, list))


@config_class
class Typed:
    text: str = ""
    path: Path | None = None
    paths: Annotated[list[Path], ONE_OR_MORE] = field(default_factory=list)
    entries: dict[str, str] = field(default_factory=dict)
    count: int | str = 0
    number: float | None = None
    switch: bool | Literal["auto", "a #2"] = "auto"
    part: Part = Part()
    anything: Any = None


NAMES = [
    "crawl #2", "#2", " a #b ", "a: b", "a:", "@a", "&a", "&a b", "*a", "*.gz", "!a b", "%a", "`a`", "|", ">a",
    "- a", "? a", "---", "...", "a\tb", "it's", 'a "b"', "'a' #2", "2024", "2024.10", "010", "1e5", "true", ".inf",
    "a, b", "a\\b", "[a", "}", "a\n b", "\x1b", "\ue000 #", "s3://b/a#2 #3",
]  # fmt: skip


@pytest.mark.parametrize("key", ["text", "path", "paths", "entries.a"])
@pytest.mark.parametrize("name", NAMES)
def test_a_word_of_the_shell_is_a_text_or_path_as_it_stands(key: str, name: str) -> None:
    found: Any = override(Typed, {}, [f"{key}={name}"], "f")
    for part in key.split("."):
        found = found[part]
    assert found == name


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("text=[a]", "[a]"),
        ("path={a}", "{a}"),
        ("path=null", None),
        ("text='a #2'", "a #2"),
        ('text="null"', "null"),
        ("paths=[2024, 'b #1', c #2]", ["2024", "b #1", "c #2"]),
        ("entries={a: 1e5, b: x #2}", {"a": "1e5", "b": "x #2"}),
        ("count=2024", 2024),
        ("count=2024.10", "2024.10"),
        ("number=1e5", 1e5),
        ("switch=true", True),
        ("switch=a #2", "a #2"),
        ("part=weight: 2.5", {"weight": 2.5}),
        ("anything=3", 3),
        ("anything=a: b", "a: b"),
        ("anything=[3, b #2]", [3, "b #2"]),
        ("anything=&a [*a]", "&a [*a]"),
    ],
)
def test_the_type_of_a_key_decides_before_yaml_does(argument: str, value: Any) -> None:
    found = override(Typed, {}, [argument], "f")[argument.partition("=")[0]]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("name", [name for name in NAMES if "\n" not in name])
def test_names_of_inputs_and_outputs_reach_the_recipe(name: str) -> None:
    words = [f"corpus={name}", f"input={name}", f"output={name}"]
    recipe = validate(Recipe, override(Recipe, {}, words, "f"), "f")
    assert (recipe.corpus, recipe.input[0].path, recipe.output) == (name, name, Path(name))
