"""Guesses for masks by a run and by transformers, on an untrained model of the demo's shape."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
import yaml
from tests.train.written_runs import write_run

from clozeline.errors import IntegrityError
from clozeline.tools.experiments import demo
from clozeline.tools.models.export_model import main as export

ROOT = Path(__file__).parents[3]


def test_the_model_of_the_demo_is_one_of_transformers(
    shard_sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exported, it makes the same guesses there; a changed weight shows; without transformers a line says so."""
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
    with pytest.raises(IntegrityError, match="predicts other words"):
        demo.compare_guesses(run, exported, demo.SENTENCES)
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    line = demo.compare_with_transformers(run, exported, demo.SENTENCES)
    assert "transformers is not installed" in line
    assert "\n" not in line
