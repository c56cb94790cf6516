"""The command that computes every count of a run in two ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.tools.shards.verify_counts import main


def test_a_whole_run_agrees(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(whole)]) == 0
    out = capsys.readouterr().out
    assert "clean" in out
    assert out.endswith("all counts agree\n")


def test_a_folder_without_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 74
    assert "report.json" in capsys.readouterr().err
