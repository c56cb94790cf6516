"""The demo: the same guesses in transformers, and a second run that makes nothing again."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers
import yaml

from clozeline.errors import IntegrityError
from clozeline.tools.experiments.multirun.runner import run_step
from clozeline.tools.models.export_model import main as export
from clozeline.tools.start import demo
from tests.sealed_lines import sealed
from tests.train.written_runs import write_run

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(("loss", "said"), [(3.5, "1.50 nats below it: the model uses"), (6.0, "not learned")])
def test_the_loss_is_compared_with_the_entropy(tmp_path, loss, said):
    heldout = {"dev": {"loss": loss, "unigram_entropy": 5.0, "labels": 9}}
    (tmp_path / "metrics.jsonl").write_text(sealed(step=1, heldout=heldout) + "\n", encoding="utf-8")
    assert said in demo.heldout_lines(tmp_path)[-1]


def test_a_failed_step_ends_the_demo_with_its_code(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(demo, "write_pages", lambda path: run_step("python", "-c", "raise SystemExit(3)"))
    assert demo.main(["--output", str(tmp_path)]) == 3
    said = capsys.readouterr()
    assert "$ python -c 'raise SystemExit(3)'" in said.out
    assert "this command ended with exit code 3" in said.err


def test_the_model_of_the_demo_is_one_of_transformers(shard_sets, tmp_path):
    """Exported, it makes the same guesses there; a changed weight shows."""
    run, exported = tmp_path / "run", tmp_path / "exported"
    model = yaml.safe_load((ROOT / demo.TRAINING).read_text(encoding="utf-8"))["model"]
    write_run(run, shard_sets, [3], 1, model=model)
    assert export([str(run), str(exported)]) == 0
    loaded = transformers.AutoModelForMaskedLM.from_pretrained(exported)
    assert type(loaded).__name__ == "ModernBertForMaskedLM"
    assert demo.compare_guesses(run, exported, demo.SENTENCES) < 1e-5
    with torch.no_grad():
        loaded.decoder.bias[300] += 9.0
    loaded.save_pretrained(exported)
    with pytest.raises(IntegrityError, match="makes other predictions"):
        demo.compare_guesses(run, exported, demo.SENTENCES)


@pytest.mark.slow
def test_small_demo_and_its_second_run(tmp_path):
    """Every step once; given again, nothing is written, made or trained again."""
    command = [sys.executable, "-m", "clozeline", "demo", "--output", str(tmp_path / "demo"), "--steps", "8"]
    first, second = (
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900) for _ in range(2)
    )
    for done in (first, second):
        assert done.returncode == 0, done.stderr
        assert "unigram entropy of the same tokens" in done.stdout
        assert done.stdout.count("hidden:") == 5
        assert "transformers has the model that was trained here" in done.stdout
    assert "corrupt: already complete" in second.stderr
    assert "python_pages" not in second.stdout
    assert "8/8" not in second.stdout, "no step was trained again"
    metrics = (tmp_path / "demo" / "train" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(metrics) == 8
