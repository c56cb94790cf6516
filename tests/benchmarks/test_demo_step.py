"""The parts of a step of the demo: they add up, and the records are counted once a step, with TensorBoard's thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from benchmarks import demo_step
from benchmarks.zero_stages import write_shards
from clozeline.train.distributed.process_group import World
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.logs.recorder import Recorder
from tests.distributed import RankPool

_STEPS = 6


def measure(world: World, folder: Path) -> tuple[list[dict[str, Any]], list[demo_step.Costs]]:
    made: list[demo_step.Costs] = []
    record, create = Recorder.step, demo_step.Costs.__init__

    def keep(costs: demo_step.Costs) -> None:
        create(costs)
        made.append(costs)

    with patch.object(demo_step, "SKIPPED", 2), patch.object(demo_step.Costs, "__init__", keep):
        rows = demo_step.measure(write_shards(folder, rows=240), folder / "run", _STEPS, world)
    assert Recorder.step is record
    return rows, made


def test_the_parts_add_up_to_the_step_and_the_records_are_counted(one_rank: RankPool, tmp_path: Path) -> None:
    (((*parts, share), (costs,)),) = one_rank.run(measure, tmp_path)
    assert [row["case"] for row in parts] == ["data", "forward", "backward", "optimizer", "records", "rest"]
    assert sum(row["ours"] for row in parts) == pytest.approx(parts[0]["peer"])
    records = read_lines(tmp_path / "run" / "metrics.jsonl")
    total = sum(sum(record["step_ms"].values()) for record in records[2:]) / (_STEPS - 2)
    assert parts[0]["peer"] == pytest.approx(total)
    assert len(costs.cpu) == len(costs.wall) == len(costs.ends) == len(records) == _STEPS
    assert costs.board > 0
    assert share["ours"] == pytest.approx(1e3 * (sum(costs.cpu[2:]) / (_STEPS - 2) + costs.board / _STEPS))
    assert share["ratio"] == share["ours"] / share["peer"]
    assert share["holds"] is (share["ratio"] <= 0.01)
