"""Templates of prompts: texts around the fields of a row, and the words of each label. They are data, never code."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT, load_config

LABEL = "label"
"""Name of the place of the label's words."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Template:
    """Keys of a template."""

    example: Annotated[str, Field(min_length=1)]
    """text of a row: `{name}` is a field of the row, and `{label}`, once, the place of the label's words; braces are
    written twice"""
    labels: dict[str, tuple[Annotated[str, Field(min_length=1)], ...]]
    """names of the labels, each with words that may be there; demonstrations have the first"""
    instruction: str = ""
    """text before all examples"""
    separator: str = "\n\n"
    """text between instruction and examples, and between examples"""
    fields: dict[str, str] = field(default_factory=dict)
    """names of the example, and the fields of the file that they are; others are named alike"""
    label: str = "label"
    """field of the file with the right label"""
    values: dict[str, str] = field(default_factory=dict)
    """values of that field, and the labels that they are; others are labels"""
    words: Literal["logsumexp", "mean"] = "logsumexp"
    """score of a label, from those of its words"""
    shots: Annotated[int, Field(ge=0, le=1024)] = 0
    """demonstrations before a row"""
    shot_selection: Literal["random", "balanced", "fixed"] = "balanced"
    """any, of each label as many, or the same for all rows (of each label as many)"""
    null: str = "N/A"
    """text in the place of every field, for score=pmi"""

    def __post_init__(self) -> None:
        """Check what concerns several keys."""
        found = _names(self.example)
        if found.count(LABEL) != 1:
            raise ValueError(f"example: expected {{label}} once, got it {found.count(LABEL)} times")
        if found == [LABEL]:
            raise ValueError("example: expected a field of the row, such as {text}, got {label} alone")
        if len(self.labels) <= 1 or not all(self.labels.values()):
            raise ValueError("labels: expected two or more, each with at least one word")
        every = [word.strip() for words in self.labels.values() for word in words]
        if double := next((word for word in every if not word or every.count(word) > 1), None):
            raise ValueError(f"labels: expected different words, got '{double}' more than once")
        if unknown := [name for name in self.values.values() if name not in self.labels]:
            raise ValueError(f"values: expected labels of {', '.join(self.labels)}, got '{unknown[0]}'")
        if unknown := [name for name in self.fields if name not in self.names]:
            raise ValueError(f"fields: '{unknown[0]}' is no name of the example; it has {', '.join(self.names)}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the example, without the label's, in their order."""
        return tuple(dict.fromkeys(name for name in _names(self.example) if name != LABEL))


class Prompt(NamedTuple):
    """The texts around the words of a label."""

    before: str
    after: str


def read_template(path: Path) -> Template:
    """Read a template from YAML.

    Raises:
        ConfigurationError: there is none, or a key has a wrong value.
    """
    found: Template = load_config(Template, path)
    return found


def prompt_of(
    template: Template, demonstrations: Sequence[tuple[Mapping[str, str], str]], fields: Mapping[str, str]
) -> Prompt:
    """Return the prompt of a row.

    Args:
        template: of the task.
        demonstrations: fields and label of each, the first of the prompt first.
        fields: of the row.
    """
    shown = []
    for of_row, label in demonstrations:
        before, after = _filled(template.example, of_row)
        shown.append(f"{before}{template.labels[label][0]}{after}")
    before, after = _filled(template.example, fields)
    parts = [*([template.instruction] if template.instruction else []), *shown, before]
    return Prompt(template.separator.join(parts), after)


def _filled(example: str, fields: Mapping[str, str]) -> tuple[str, str]:
    """Return the texts of an example before and after the label, with the fields in their places."""
    sides = [""]
    for text, name, _, _ in string.Formatter().parse(example):
        sides[-1] += text
        if name == LABEL:
            sides.append("")
        elif name is not None:
            sides[-1] += fields[name]
    before, after = sides
    return before, after


def _names(example: str) -> list[str]:
    """Return the names of an example."""
    found = []
    for _, name, form, conversion in string.Formatter().parse(example):
        if name is None:
            continue
        if form or conversion or not name.isidentifier():
            raise ValueError(f"example: expected plain names in braces, such as {{text}}, got '{{{name}}}'")
        found.append(name)
    return found
