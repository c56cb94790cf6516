"""Sizes and losses of stored runs, next to the trainer's own evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.pipeline.shards import open_shards
from clozeline.tools.experiments.multirun.race_sizes import FORMS, StoredForm, heldout_loss, size_standings, store_forms
from clozeline.train.logs.json_lines import read_lines
from tests.distributed import RankPool
from tests.tools.small_run import example_sets
from tests.train.masked_set import write_config
from tests.train.test_run import start


def test_forms_lose_what_the_trainer_would_see_and_are_made_once(
    one_rank: RankPool, shard_sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = example_sets(shard_sets)["masked_lm"][0]
    changes = {"data__heldout": {"heldout": str(manifest)}, "evaluate__every": 2, "model__position": {"maximum": 64}}
    config = write_config(tmp_path / "train.yaml", manifest, tmp_path / "run", steps=2, schedule__steps=2, **changes)
    assert one_rank.run(start, config, []) == [(0, "")]
    recorded = read_lines(tmp_path / "run" / "metrics.jsonl")[-1]["heldout"]["heldout"]["loss"]
    shards = open_shards(manifest)
    assert heldout_loss(tmp_path / "run", shards) == pytest.approx(recorded, abs=1e-6)
    forms = store_forms(tmp_path / "run", shards, tmp_path / "sizes")
    assert {"as trained", "int8", "int8, tables too"} <= forms.keys() <= FORMS.keys()
    assert forms["int8, tables too"].stored < forms["int8"].stored < forms["as trained"].stored
    assert forms["int8"].loss == pytest.approx(recorded, abs=0.01)
    assert forms["int8"].loss != forms["as trained"].loss
    monkeypatch.setattr("clozeline.tools.experiments.multirun.race_sizes.heldout_loss", None)
    assert store_forms(tmp_path / "run", shards, tmp_path / "sizes") == forms


def test_the_smallest_file_that_every_seed_reaches_is_first() -> None:
    sizes = {"large": [(3.5, 9), (3.62, 9)], "small": [(3.54, 4), (3.55, 4)], "smaller": [(3.5, 2), (3.61, 2)]}
    forms = {entry: [{"as trained": StoredForm(size, loss)} for loss, size in own] for entry, own in sizes.items()}
    first, _, *lines = size_standings(3.5, forms)
    assert "3.55 nats" in first
    assert [line.split()[0] for line in lines] == ["small", "smaller", "large"]
    assert lines[0].endswith("2 of 2")
    assert lines[1].endswith("1 of 2")
