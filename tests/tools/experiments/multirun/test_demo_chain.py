from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.errors import StorageError
from clozeline.tools.experiments.multirun.demo_chain import heldout_result, run_chain
from clozeline.tools.experiments.multirun.runner import run_step


def test_a_failed_step_ends_the_chain_with_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    def chain(output: Path, steps: int | None) -> None:
        assert (output.name, steps) == ("here", None)
        run_step("python", "-c", "raise SystemExit(3)")

    assert run_chain("sample", "Run.", chain, ["--output", "here"]) == 3
    said = capsys.readouterr()
    assert "$ python -c 'raise SystemExit(3)'" in said.out
    assert said.err.startswith("sample: this command ended with exit code 3")


def test_no_evaluation_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n', encoding="utf-8")
    with pytest.raises(StorageError, match="no held-out evaluation"):
        heldout_result(tmp_path)
