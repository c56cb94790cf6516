"""A dry run says as what a run will be exported, and which keys leave it without a class."""

import re

import pytest

from clozeline.configuration.config import load_config
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.startup.announcements import dry_run
from tests.train.masked_set import write_config

BERT = ["norm_place=post", "final_norm=false", "emb_norm=true", "activation=gelu", "eps=1e-12"]


def told(folder, shards, capsys, *keys):
    config = write_config(folder / "a.yaml", shards, folder / "run", steps=2, schedule__steps=2)
    assert dry_run(load_config(TrainConfig, config, [f"model.{key}" for key in (*BERT, *keys)])) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (["position={maximum: 16}"], "export as DistilBertForMaskedLM of transformers"),
        (["position={maximum: 16, offset: 2}"], "export as RobertaForMaskedLM of transformers"),
        (["position={kind: rope}"], "export not as it is: .* model.position.kind: expected learned, got rope"),
        (["norm_place=pre"], "export not as it is: .* model.norm_place: expected post, got pre"),
    ],
)
def test_a_dry_run_says_as_what_a_run_is_exported(tmp_path, shards, capsys, keys, line):
    assert re.search(line, told(tmp_path, shards, capsys, *keys))


def test_a_damaged_source_stops_no_training(tmp_path, shards, capsys):
    """What an export would say of it is a line of the start."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "published.json").write_text("{", encoding="utf-8")
    assert "export " in told(tmp_path, shards, capsys, "position={maximum: 16}")
