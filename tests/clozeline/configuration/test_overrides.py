"""Strict YAML, and the effect of words of the command line on what a file has."""

import itertools
import math
from copy import deepcopy
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clozeline.configuration.config import (
    ONE_OR_MORE,
    config_class,
    load_config,
    read_mapping,
    validate,
)
from clozeline.configuration.overrides import dump_yaml, override, parse_yaml
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.registries import SENTENCES
from clozeline.registry import Component
from tests.refusals import refused


@config_class
class Part:
    weight: float = 1.0
    tags: dict[str, int] = field(default_factory=dict)


@config_class
class Whole:
    sentences: Annotated[Component, SENTENCES] = field(
        default_factory=lambda: SENTENCES.resolve("regex")
    )
    part: Part = Part()
    parts: dict[str, Part] | None = None
    listed: list[Part] = field(default_factory=list)


BEFORE = {
    "sentences": {"name": "regex", "option": 1},
    "part": {"weight": 2.0, "tags": {"a": 1, "b": 2}},
    "parts": {
        "x": {"weight": 3.0, "tags": {"a": 1}},
        "y": {},
    },
    "listed": [{"weight": 4.0, "tags": {"a": 1}}],
}


@pytest.mark.parametrize(
    ("argument", "key", "after"),
    [
        ("sentences={name: lines}", "sentences", {"name": "lines"}),
        ("sentences={option: 2}", "sentences", {"name": "regex", "option": 2}),
        ("part={weight: 5.0}", "part", {"weight": 5.0, "tags": {"a": 1, "b": 2}}),
        ("part={tags: {c: 3}}", "part", {"weight": 2.0, "tags": {"c": 3}}),
        ("part.weight=5.0", "part", {"weight": 5.0, "tags": {"a": 1, "b": 2}}),
        ("part.tags={c: 3}", "part", {"weight": 2.0, "tags": {"c": 3}}),
        (
            "part.tags.c=3",
            "part",
            {"weight": 2.0, "tags": {"a": 1, "b": 2, "c": 3}},
        ),
        ("part.weight=null", "part", {"weight": None, "tags": {"a": 1, "b": 2}}),
        ("parts={z: {}}", "parts", {"z": {}}),
        (
            "parts.x={weight: 5.0}",
            "parts",
            {"x": {"weight": 5.0, "tags": {"a": 1}}, "y": {}},
        ),
        ("listed.0.tags={b: 2}", "listed", [{"weight": 4.0, "tags": {"b": 2}}]),
    ],
)
def test_a_mapping_merges_or_replaces(argument, key, after):
    before = deepcopy(BEFORE)
    assert override(Whole, BEFORE, [argument], "here") == {**BEFORE, key: after}
    assert before == BEFORE


@pytest.mark.parametrize(
    ("before", "arguments", "after"),
    [
        (
            {"listed": [{"weight": 1.0}, {}]},
            ["listed.weight=5.0"],
            {"listed": [{"weight": 5.0}, {"weight": 5.0}]},
        ),
        (
            {"listed": [{}, {}]},
            ["listed.1.weight=5.0"],
            {"listed": [{}, {"weight": 5.0}]},
        ),
        (
            {"sentences": "lines"},
            ["sentences.option=2"],
            {"sentences": {"name": "lines", "option": 2}},
        ),
        (
            {},
            ["sentences.option=2"],
            {"sentences": {**SENTENCES.resolve("regex").as_dict(), "option": 2}},
        ),
        ({"part": "${nope}"}, ["part=null"], {"part": None}),
        (
            {},
            ["part.weight=5.0", "part={tags: {}}"],
            {"part": {"tags": {}, "weight": 5.0}},
        ),
        # in their order
        (
            {"parts": {"x": {}}},
            ["parts={z: {weight: 1.0}}", "parts.z.weight=2.0", "parts.w={}"],
            {"parts": {"z": {"weight": 2.0}, "w": {}}},
        ),
    ],
)
def test_keys_below_lists_and_words(before, arguments, after):
    assert override(Whole, before, arguments, "f") == after


def test_keys_of_stages_and_references():
    """`clean.sources` is a mapping of names below a class that the stage's folder holds."""
    before = {
        "clean": {
            "sources": {"a": {"filters": []}, "b": {"filters": []}},
            "keep_text": 0.5,
        }
    }
    found = override(Recipe, before, ["clean={sources: {c: {filters: []}}}"], "here")
    assert found == {
        "clean": {
            "sources": {"c": {"filters": []}},
            "keep_text": 0.5,
        }
    }
    with refused(r"part is \$\{parts.x\}"):
        override(
            Whole,
            {
                "parts": {"x": {}},
                "part": "${parts.x}",
            },
            ["part.weight=2.0"],
            "f",
        )


@pytest.mark.parametrize(
    ("before", "arguments"),
    [
        ("a.jsonl", ["input.text_key=body"]),
        ({"path": "a.jsonl"}, ["input.text_key=body"]),
        (["a.jsonl"], ["input.text_key=body"]),
        (None, ["input.text_key=body", "input=a.jsonl"]),
    ],
)
def test_an_option_of_the_reader_reaches_every_form_of_input(before, arguments):
    data = {"corpus": "c", **({} if before is None else {"input": before})}
    (entry,) = validate(Recipe, override(Recipe, data, arguments, "f"), "f").input
    assert (entry.path, entry.options) == ("a.jsonl", {"text_key": "body"})


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
    "crawl #2",
    "#2",
    " a #b ",
    "a:",
    "@a",
    "&a b",
    "*a",
    "*.gz",
    "!a b",
    "%a",
    "`a`",
    "|",
    ">a",
    "- a",
    "---",
    "a\tb",
    "it's",
    'a "b"',
    "'a' #2",
    "2024",
    "010",
    "1e5",
    "true",
    ".inf",
    "a, b",
    "a\\b",
    "[a",
    "}",
    "a\n b",
    "\x1b",
    "\ue000 #",
    "s3://b/a#2 #3",
]


@pytest.mark.parametrize("key", ["text", "path", "paths", "entries.a"])
@pytest.mark.parametrize("name", NAMES)
def test_a_word_of_the_shell_is_a_text_or_path_as_it_stands(key, name):
    found = override(Typed, {}, [f"{key}={name}"], "f")
    for part in key.split("."):
        found = found[part]
    assert found == name


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("text=[a]", "[a]"),
        ("path=null", None),
        ("text='a #2'", "a #2"),
        ('text="null"', "null"),
        ("paths=[a, 'b #1', c#2]", ["a", "b #1", "c#2"]),
        ("paths=[a, b #2]", "[a, b #2]"),
        ("entries={a: '1e5', b: 'x #2'}", {"a": "1e5", "b": "x #2"}),
        ("count=2024.10", "2024.10"),
        ("number=1e5", 1e5),
        ("switch=true", True),
        ("switch=a #2", "a #2"),
        ("part={weight: 2.5}", {"weight": 2.5}),
        ("part=weight: 2.5", "weight: 2.5"),
        ("anything=a: b", "a: b"),
        ("anything=[3, b#2]", [3, "b#2"]),
        ("anything=&a [*a]", "&a [*a]"),
    ],
)
def test_the_type_of_a_key_decides_before_yaml_does(argument, value):
    found = override(Typed, {}, [argument], "f")[argument.partition("=")[0]]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3e-4", 3e-4),
        ("1.", 1.0),
        (".5", 0.5),
        ("-1.5e3", -1500.0),
        ("1e5", 1e5),
        ("-.inf", -math.inf),
        ("-7", -7),
        ("+7", 7),
        ("12:30", "12:30"),
        ("010", "010"),
        ("0b11", 3),
        ("no", "no"),
        ("Yes", "Yes"),
        ("True", True),
        ("true", True),
        ("null", None),
        ("~", None),
        ("1_000", 1000),
        ("0x10", 16),
        ("2024-05-06", "2024-05-06"),
        ("1.2.3", "1.2.3"),
        ("1e", "1e"),
        ("'3e-4'", "3e-4"),
        ("12:30:45", "12:30:45"),
        ("1:30.5", "1:30.5"),
    ],
)
def test_words_and_numbers(text, value):
    found = parse_yaml(f"key: {text}")["key"]
    assert found == value
    assert type(found) is type(value)


LOOKALIKES = st.sampled_from(
    "1e5 3e-4 +.5 12:30 010 0o17 no true Null 2024-05-06 .inf = <<".split()
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | LOOKALIKES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=5),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=60)
@given(VALUES)
@example({"\x85": None, "a\u2028b": "\u2029", "\ufeff": ["\x85c"]})
def test_what_is_written_is_read(value):
    assert parse_yaml(dump_yaml(value)) == value
    assert yaml.safe_load(dump_yaml({"key": value})) == {"key": value}, "another reader agrees"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *[
            (text, ".")
            for text in (
                "[" * 600,
                "{a: " * 2000,
                "- " * 2000,
                "a: 0b_",
                "? [a]\n: b",
                "{a: b}: c",
                "\0",
            )
        ],
        ("!!python/object/apply:os.getcwd []", "expected text, .* got the tag .*getcwd"),
        ("a: !!binary aGk=", "expected text, .* got the tag .*binary"),
        ("a: &a {b: 1}\nc: {<<: *a}", r"merge keys \(<<\) .*`base:`(.|\n)*line"),
        pytest.param("a: " + "x" * 30_000_000, "at most 4,194,304 characters", id="30 MB"),
        *[
            (text, r"key .* is given twice(.|\n)*line")
            for text in ("a: 1\na: 2", "x: {b: 1, b: 2}", "- {1: a, 1: b}")
        ],
    ],
)
def test_what_is_no_yaml_is_one_kind_of_error(text, problem):
    with pytest.raises(yaml.YAMLError, match=problem):
        parse_yaml(text)


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{key}: &{key} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, key in itertools.pairwise("abcdefghi")
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BOMB, "more than 999 values"),
        ("a: &a [*a]", "an alias repeats the value that it is in"),
        ("&a {b: {c: *a}}", "an alias repeats the value that it is in"),
        ("[" + "x, " * 1000 + "]", "more than 999 values"),
    ],
)
def test_a_text_that_becomes_too_large_is_refused_at_its_line(tmp_path, monkeypatch, text, problem):
    monkeypatch.setattr("clozeline.configuration.overrides._MOST_VALUES", 999)
    base = {"a": 1, "b": [1, 2]}
    usual = parse_yaml("base: &base {a: 1, b: &b [1, 2]}\nc: *b\nagain: [*base, *base]")

    assert usual == {"base": base, "c": [1, 2], "again": [base, base]}

    (tmp_path / "c.yaml").write_text(text)

    with refused(rf"c\.yaml: cannot be read as YAML: {problem}.* in line \d+$"):
        read_mapping(tmp_path / "c.yaml")


@pytest.mark.parametrize(
    "key",
    [
        "a..b",
        ".part",
        "part.",
        "part..weight",
        "part" + "." * 2000,
        ".".join(["part"] * 2000),
    ],
)
def test_a_key_that_cannot_be_one_is_refused_by_one_message(tmp_path, key):
    (tmp_path / "c.yaml").write_text("{}")

    with refused(r"^argument '.*expected a key such as .*$") as caught:
        load_config(Whole, tmp_path / "c.yaml", [f"{key}=1"])

    assert caught.value.exit_code == 64


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("nope.0.b=1", "unknown key 'nope'"),
        ("part.weight.0.b=1", "part.weight: expected a valid number"),
        ("listed.7.weight=1", "listed has 1 entries"),
        ("part.tags.a.b.c=1", "part.tags.a: expected a valid integer"),
    ],
)
def test_a_key_below_what_has_no_keys_is_named(tmp_path, word, problem):
    (tmp_path / "c.yaml").write_text("listed: [{}]")
    with refused(rf"^(command line|argument '.*'): {problem}.*$"):
        load_config(Whole, tmp_path / "c.yaml", [word])
