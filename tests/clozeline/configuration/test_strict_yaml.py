"""YAML as a person means it: the traps of YAML 1.1 are closed, all else is PyYAML's."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clozeline.configuration.strict_yaml import dump_yaml, parse_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3e-4", 3e-4), ("3E+4", 3e4), ("1.", 1.0), (".5", 0.5), ("-1.5e3", -1500.0), ("1e5", 1e5),
        ("-.inf", -math.inf), ("0", 0), ("-7", -7), ("+7", 7), ("12:30", "12:30"), ("010", "010"), ("0b11", 3),
        ("no", "no"), ("on", "on"), ("Yes", "Yes"), ("True", "True"), ("true", True), ("false", False), ("null", None),
        ("~", None), ("12", 12), ("1_000", 1000), ("0x10", 16), ("2024-05-06", "2024-05-06"), ("1.2.3", "1.2.3"),
        ("1e", "1e"), ("e5", "e5"), ("'3e-4'", "3e-4"), ("12:30:45", "12:30:45"), ("1:30.5", "1:30.5"),
    ],
)  # fmt: skip
def test_words_and_numbers(text: str, value: Any) -> None:
    found = parse_yaml(f"key: {text}")["key"]
    assert found == value
    assert type(found) is type(value)


LOOKALIKES = st.sampled_from(
    ["1e5", "3e-4", "+.5", "12:30", "010", "0o17", "no", "true", "Null", "2024-05-06", ".inf", "=", "<<"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | LOOKALIKES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60)
@given(VALUES)
@example({"\x85": None, "a\u2028b": "\u2029", "\ufeff": ["\x85c"]})
def test_what_is_written_is_read(value: Any) -> None:
    assert parse_yaml(dump_yaml(value)) == value
    assert yaml.safe_load(dump_yaml({"key": value})) == {"key": value}, "another reader agrees"


@pytest.mark.parametrize("text", ["a: 1\na: 2", "x: {b: 1, b: 2}", "- {1: a, 1: b}"])
def test_a_key_given_twice_is_an_error_with_its_line(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match=r"key .* is given twice(.|\n)*line"):
        parse_yaml(text)


def test_objects_of_python_are_not_built() -> None:
    with pytest.raises(yaml.YAMLError, match="could not determine a constructor"):
        parse_yaml("!!python/object/apply:os.getcwd []")


@pytest.mark.parametrize(
    "text",
    ["[" * 2000, "{a: " * 2000, "- " * 2000, "a: 0b_", "? [a]\n: b", "{a: b}: c", "a: \0"],
    ids=["lists", "mappings", "entries", "number", "list as key", "mapping as key", "control character"],
)
def test_what_is_no_yaml_is_one_kind_of_error(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        parse_yaml(text)
