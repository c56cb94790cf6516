from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from clozeline.errors import StorageError
from clozeline.tools.experiments import demo
from clozeline.tools.experiments.multirun.runner import run_step

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("loss", "entropy", "words"),
    [(3.5, 5.0, "below it by 1.50 nats"), (4.9, 5.0, "not clearly below"), (6.0, 5.0, "not")],
)
def test_verdict(loss: float, entropy: float, words: str) -> None:
    assert words in demo.compare_with_entropy(loss, entropy)


def test_a_failed_step_ends_the_demo_with_its_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def chain(output: Path, steps: int | None) -> None:
        assert (output.name, steps) == ("here", None)
        run_step("python", "-c", "raise SystemExit(3)")

    monkeypatch.setattr(demo, "_demo", chain)
    assert demo.main(["--output", "here"]) == 3
    said = capsys.readouterr()
    assert "$ python -c 'raise SystemExit(3)'" in said.out
    assert said.err.startswith("demo: this command ended with exit code 3")


def test_no_evaluation_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n', encoding="utf-8")
    with pytest.raises(StorageError, match="no held-out evaluation"):
        demo.heldout_result(tmp_path)


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
    assert "corrupt: already complete" in second.stderr
    assert "python_pages" not in second.stdout
    assert "8/8" not in second.stdout, "no step was trained again"
    metrics = (tmp_path / "demo" / "train" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(metrics) == 8
