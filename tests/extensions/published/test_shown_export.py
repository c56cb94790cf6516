"""The export that the demo shows."""

import pytest
import torch
import transformers
import yaml

from clozeline.errors import IntegrityError
from clozeline.extensions.published.commands.export_model import main as export
from clozeline.extensions.published.shown_export import export_and_compare
from clozeline.tools.start import demo
from tests.registries import ROOT
from tests.train.written_runs import write_run


def test_the_model_of_the_demo_is_one_of_transformers(shard_sets, tmp_path):
    """Exported, it makes the same guesses there; a changed weight shows."""
    run = tmp_path / "run"
    exported = tmp_path / "exported"
    model = yaml.safe_load((ROOT / demo.TRAINING).read_text(encoding="utf-8"))["model"]
    write_run(run, shard_sets, [3], 1, model=model)

    assert export([str(run), str(exported)]) == 0

    loaded = transformers.AutoModelForMaskedLM.from_pretrained(exported)

    assert type(loaded).__name__ == "ModernBertForMaskedLM"
    assert export_and_compare(run, exported, demo.SENTENCES)[1].endswith(str(exported))

    with torch.no_grad():
        loaded.head.norm.weight *= 3  # the same words, of other probabilities
    loaded.save_pretrained(exported)
    with pytest.raises(IntegrityError, match="makes other predictions"):
        export_and_compare(run, exported, demo.SENTENCES)
