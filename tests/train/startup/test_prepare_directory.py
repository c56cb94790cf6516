from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clozeline.configuration.config import load_config
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.datasets import open_datasets
from clozeline.train.logs.journal import Journal
from clozeline.train.startup.run_directory import prepare_directory
from clozeline.train.startup.start_or_resume import StartingPoint
from tests.train.masked_set import write_config, write_masked_sets


@pytest.mark.parametrize(("step", "missing"), [(0, []), (1, ["events.jsonl"]), (9, ["metrics.jsonl", "events.jsonl"])])
def test_a_resumed_run_announces_the_records_that_are_missing(tmp_path: Path, step: int, missing: list[str]) -> None:
    shards = write_masked_sets(tmp_path / "corrupt")
    file = write_config(tmp_path / "train.yaml", shards, tmp_path / "run", log={"every": 2, "tensorboard": False})
    config = load_config(TrainConfig, file, [])
    config.output.mkdir()
    announced: list[tuple[str, Any]] = []
    state = TrainState(step=step, samples=8 * step)
    journal = Journal(config.output, config.log, 0)
    point = StartingPoint(config, state, None, state)
    prepare_directory(
        point, state, open_datasets(config), journal, lambda event, **fields: announced.append((event, fields))
    )
    journal.close()
    assert announced == [("records_lost", {"file": name, "steps": step}) for name in missing]
    assert (config.output / "config.yaml").is_file()
