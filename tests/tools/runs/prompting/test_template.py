"""Texts of prompts by hand, and templates that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.tools.runs.prompting.template import Prompt, Template, prompt_of, read_template

PLAIN: dict[str, Any] = {
    "example": "Input: {text}\nPolarity:{label}.",
    "labels": {"positive": [" good", " fine"], "negative": [" bad"]},
}


def template(**changes: Any) -> Template:
    found: Template = validate(Template, PLAIN | changes, "test")
    return found


def test_demonstrations_come_between_the_instruction_and_the_row() -> None:
    shown = [({"text": "{a}"}, "negative"), ({"text": "b"}, "positive")]
    prompt = prompt_of(template(instruction="Say.", separator=" | "), shown, {"text": "c"})
    before = "Say. | Input: {a}\nPolarity: bad. | Input: b\nPolarity: good. | Input: c\nPolarity:"
    assert prompt == Prompt(before, ".")
    assert prompt_of(template(), [], {"text": "c"}) == Prompt("Input: c\nPolarity:", ".")


def test_a_place_of_the_label_inside_and_braces_that_are_text() -> None:
    inside = template(example="{one}?{label}, {{{two}}} {one}")
    assert inside.names == ("one", "two")
    assert prompt_of(inside, [], {"one": "A", "two": "B"}) == Prompt("A?", ", {B} A")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"example": "{text}"}, "expected {label} once, got it 0 times"),
        ({"example": "{label}{text}{label}"}, "expected {label} once, got it 2 times"),
        ({"example": "It is{label}"}, "expected a field of the row"),
        ({"example": "{text.__class__}{label}"}, "expected plain names in braces"),
        ({"example": "{text!r}{label}"}, "expected plain names in braces"),
        ({"example": "{text:>9}{label}"}, "expected plain names in braces"),
        ({"labels": {"positive": [" good"]}}, "expected two or more"),
        ({"labels": {"positive": [" good"], "negative": []}}, "each with at least one word"),
        ({"labels": {"positive": [" good"], "negative": ["good"]}}, "'good' more than once"),
        ({"values": {"1": "positiv"}}, "expected labels of positive, negative, got 'positiv'"),
        ({"fields": {"txt": "sentence"}}, "'txt' is no name of the example; it has text"),
        ({"shot": 3}, "shot"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        template(**changes)
    assert message in str(caught.value)


def test_a_file_is_read_as_yaml(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text('example: "{text}{label}"\nlabels: {a: [" x"], b: [" y"]}\nvalues: {"1": a}\n')
    assert read_template(path).labels == {"a": (" x",), "b": (" y",)}
    with pytest.raises(ConfigurationError, match="no such file"):
        read_template(tmp_path / "none.yaml")
