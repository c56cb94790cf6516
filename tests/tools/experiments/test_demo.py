from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from clozeline.tools.experiments import demo

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("loss", "entropy", "words"),
    [(3.5, 5.0, "below it by 1.50 nats"), (4.9, 5.0, "not clearly below"), (6.0, 5.0, "not")],
)
def test_verdict(loss: float, entropy: float, words: str) -> None:
    assert words in demo.compare_with_entropy(loss, entropy)


@pytest.mark.slow
def test_small_demo_and_its_second_run(tmp_path: Path) -> None:
    """Every step once; given again, nothing is written, made or trained again."""
    words = ["demo", "--output", str(tmp_path / "demo"), "--steps", "8"]
    command = [sys.executable, "-m", "clozeline", *words]
    first, second = (
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900) for _ in range(2)
    )
    assert first.returncode == 0, first.stderr
    assert second.returncode == 0, second.stderr
    for output in (first.stdout, second.stdout):
        assert "unigram entropy of the same tokens" in output
        assert output.count("hidden:") == 5
        assert "transformers has the model that was trained here" in output
    assert "complete already" in second.stdout
    assert "python_pages" not in second.stdout
    assert "8/8" not in second.stdout, "no step was trained again"
    metrics = (tmp_path / "demo" / "train" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(metrics) == 8
