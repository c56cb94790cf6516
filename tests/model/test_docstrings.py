"""Examples in the docstrings of model/."""

import doctest
import importlib
from pathlib import Path

import pytest

import clozeline.model

MODEL = Path(clozeline.model.__file__).parent
MODULES = [
    ".".join(("clozeline.model", *path.relative_to(MODEL).with_suffix("").parts))
    for path in sorted(MODEL.rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name):
    found = doctest.testmod(importlib.import_module(name))
    assert (found.attempted > 0, found.failed) == (True, 0)
