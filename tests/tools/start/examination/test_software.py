"""Findings about versions, against files and metadata."""

from __future__ import annotations

import importlib.metadata
import shutil
import tomllib
from pathlib import Path

import pytest

from clozeline.tools.start.examination import software

ROOT = Path(__file__).parents[4]


def test_the_packages_are_those_of_the_project_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = {"editables"}  # an editable install needs it
    assert {*software.required_packages()} - own == {*project["dependencies"]}


def test_pins_are_compared_with_what_is_installed(tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text("# exact\nNumPy==0.1\nrich==1 # tables\n\n")
    pins = software.read_pins(tmp_path / "constraints.txt")
    assert pins == {"numpy": "0.1", "rich": "1"}
    pins["rich"] = importlib.metadata.version("rich") + "+cu130"
    numpy, missing, total = software.examine_packages(pins, ["numpy", "rich", "no-such-package"])
    assert (numpy.name, numpy.status) == ("numpy", "note")
    assert "tested with 0.1" in numpy.advice
    assert (missing.name, missing.status) == ("no-such-package", "missing")
    assert total.found == "1 of 3 as pinned in constraints.txt"


def test_an_old_python_is_missing_something() -> None:
    assert software.examine_python((3, 10)).status == "missing"
    assert software.examine_python((3, 11)).status == "ok"


def test_a_compiler_is_found_on_the_path_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    echo = shutil.which("echo")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert software.examine_compiler().status == "missing"
    monkeypatch.setenv("CXX", str(echo))
    assert software.examine_compiler().found.startswith(str(echo))


def test_the_native_module_is_slow_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software, "missing_note", lambda: None)
    assert software.examine_native_module().status == "ok"
    monkeypatch.setattr(software, "missing_note", lambda: "module not in use (gone): same results, slower")
    found = software.examine_native_module()
    assert (found.status, found.found, found.advice) == ("slow", "module not in use (gone)", "same results, slower")


def test_without_torch_it_is_missing() -> None:
    found = {finding.name: finding.status for finding in software.examine_software(None)}
    assert found["torch"] == "missing"
