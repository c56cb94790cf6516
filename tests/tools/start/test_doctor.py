"""`clozeline doctor`: findings, and an exit code that says whether something needed is missing."""

from __future__ import annotations

import shutil
import sys
from importlib import metadata
from pathlib import Path

import pytest

from clozeline.tools.start.doctor import main


def test_this_machine_has_all_that_is_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"output={tmp_path / 'new' / 'folder'}"]) == 0
    names = {line.split("  ")[0] for line in capsys.readouterr().out.splitlines()}
    assert {"Python", "torch", "GPUs", "C++ compiler", "compiled module", "cores", "memory", "disk"} <= names
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(metadata, "requires", lambda _: ["numpy>=2", "no-such-package==1", 'extra-one; extra == "x"'])
    assert main([]) == 64
    out, err = capsys.readouterr()
    assert "missing: no-such-package, torch, C++ compiler" in err
    assert all(
        advice in out for advice in ("install g++", "pip install torch", "pip install -c constraints.txt no-such")
    )


def test_a_full_disk_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder is shown without control characters."""
    usage = shutil.disk_usage(tmp_path)._replace(free=5 * 2**30)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    (tmp_path / "a\x1b[31m").mkdir()
    assert main([f"output={tmp_path / 'a'}\x1b[31m"]) == 0
    out = capsys.readouterr().out
    assert "5.0 GiB free" in out
    assert "four times the size of its text" in out
    assert "\x1b" not in out
