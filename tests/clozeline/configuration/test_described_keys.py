"""Keys of a configuration: how they are described, and the type that each has."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from clozeline.configuration.config import config_class, describe
from clozeline.configuration.overrides import below
from clozeline.registry import Chosen, OneOf, choose


@config_class
class Inner:
    """A part."""

    rate: float = 1e-3
    """learning rate,
    above 0"""
    languages: tuple[str, ...] = ("en",)


@config_class
class Outer:
    """A configuration with a key of every kind."""

    steps: int
    inner: Inner = Inner()
    others: list[Inner] | None = None
    by_name: dict[str, Inner] = field(default_factory=dict)
    mode: Literal["train", "heldout"] = "train"
    path: Path | None = None
    free: Any = None
    sentences: Annotated[Chosen, OneOf("clozeline.pipeline.text.sentences")] = field(
        default_factory=lambda: choose("clozeline.pipeline.text.sentences", "regex")
    )
    long: str = "x" * 80
    hidden: int = Field(default=1, exclude=True)


@config_class
class Derived(Inner):
    """A part with a key more, and one whose meaning is another."""

    languages: tuple[str, ...] = ("de",)
    """codes of languages"""
    more: int = 1
    """number of parts"""


def test_a_key_that_is_inherited_keeps_its_meaning():
    meanings = {key: text for key, _, _, text in describe(Derived)}
    expected = {"rate": "learning rate, above 0", "languages": "codes of languages", "more": "number of parts"}
    assert meanings == expected


def test_every_kind_of_key_is_described_as_people_write_it():
    found = {key: (kind, default, text) for key, kind, default, text in describe(Outer)}
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


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (["inner", "rate"], float),
        (["others", "0", "rate"], float),
        (["by_name", "any", "languages"], tuple[str, ...]),
        (["by_name", "any", "languages", "1"], str),
        (["inner", "0"], None),
        (["others", "rate"], None),
        (["steps", "x"], None),
        (["nothing"], None),
    ],
)
def test_the_type_of_a_key_is_found_by_its_path(path, kind):
    found = Outer
    for key in path:
        found = below(found, key)
    assert found == kind
