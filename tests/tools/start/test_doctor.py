"""`clozeline doctor`: a table, JSON, and an exit code that says whether something needed is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clozeline.tools.start.doctor import examine, main
from clozeline.tools.start.examination import hardware, software


def test_this_machine_has_all_that_is_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"output={tmp_path / 'new' / 'folder'}"]) == 0
    out = capsys.readouterr().out
    for name in ("Python", "torch", "GPU", "C++ compiler", "cores", "memory", "disk", "write speed", "packages"):
        assert f"\n {name}" in out
    assert "Nothing that is needed is missing." in out
    assert max(map(len, out.splitlines())) <= 80
    assert list(tmp_path.iterdir()) == []


def test_json_has_the_same_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", f"output={tmp_path}"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in found] == [finding.name for finding in examine(tmp_path)]
    assert {entry["status"] for entry in found} <= {"ok", "note", "slow"}


def test_what_is_missing_is_named_and_ends_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(software, "required_packages", lambda: ["numpy", "no-such-package"])
    assert main([]) == 64
    out, err = capsys.readouterr()
    assert "missing: C++ compiler, no-such-package" in err
    assert "install g++" in out


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(folder: Path) -> float:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(hardware, "measure_write_speed", refuse)
    assert main([f"output={tmp_path}"]) == 74
    assert f"{tmp_path}: Permission denied; name a folder that you may write to" in capsys.readouterr().err
