"""An objective is one file: what is added to the folder has every promise of the others tested at once."""

import itertools
import json
from pathlib import Path

from clozeline import registry
from docs.generate.page import gallery
from tests.pipeline.corrupt.objectives import test_objective_contract as contract
from tests.pipeline.corrupt.objectives.golden import GOLDEN, golden, write_golden
from tests.temporary_module import temporary_module

OLD = Path(__file__).parents[4] / "pipeline/corrupt/objectives/whole_word_masking.py"


def promises():
    """Yield each test of the contract that runs over the folder, with the first and the last of its other cases."""
    for name, test in vars(contract).items():
        marks = [mark.args for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
        if name.startswith("test_") and ("name", contract.NAMES) in marks:
            others = [(key, cases[:: max(1, len(cases) - 1)]) for key, cases in marks if key != "name"]
            for values in itertools.product(*(cases for _, cases in others)):
                yield test, dict(zip((key for key, _ in others), values, strict=True))


def test_an_objective_is_one_file(tmp_path, monkeypatch):
    """A new file is in the registry, keeps every promise, and has golden bytes and a section of the page."""
    stored = tmp_path / GOLDEN.name
    stored.write_bytes(GOLDEN.read_bytes())
    monkeypatch.setattr(contract, "GOLDEN", stored)
    source = OLD.read_text(encoding="utf-8").replace("WholeWordMasking", "LastTokens")
    with temporary_module("clozeline.pipeline.corrupt.objectives", "last_tokens", source, tmp_path):
        assert "last_tokens" in registry.names("clozeline.pipeline.corrupt.objectives")
        write_golden(stored)
        kept = list(promises())
        assert len({test for test, _ in kept}) >= 10
        for promise, case in kept:
            promise(name="last_tokens", **case)
        found = json.loads(stored.read_text(encoding="utf-8"))
        assert found.pop("last_tokens") == golden("last_tokens")
        assert "\n## last_tokens\n" in gallery()
    assert found == json.loads(GOLDEN.read_text(encoding="utf-8"))
