from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_small_chain_and_its_second_run(tmp_path: Path) -> None:
    """A model of transformers comes back to transformers with what it learnt here; the comparison sees a change."""
    folder = tmp_path / "continue"
    words = ["continue-demo", "--output", str(folder), "--steps", "8"]
    command = [sys.executable, "-m", "clozeline", *words]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)

    first, second = run(), run()
    for done in (first, second):
        assert done.returncode == 0, done.stderr
        assert "transformers has the model that was trained here" in done.stdout
        assert "42 parameters from" in done.stdout or "complete already" in done.stdout
    config = folder / "exported" / "tokenizer.json"
    config.write_text(config.read_text(encoding="utf-8").replace('"lowercase": true', '"lowercase": false'))
    third = run()
    assert third.returncode == 65
    assert "differ" in third.stderr
