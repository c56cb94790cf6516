"""Profiles of a few steps: what is written, and that training does not notice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from clozeline.train.logs.profiling import Profiler
from tests.distributed import RankPool
from tests.train.masked_set import write_config
from tests.train.runs import events, logged, start
from tests.train.synthetic import tiny


def profiled(folder: Path, first: int, steps: range) -> list[str]:
    """Events of a profile of two steps; step N multiplies N pairs of matrices."""
    told: list[str] = []
    config = tiny(profile={"from": first, "steps": 2}).profile
    assert config is not None
    profiler = Profiler(config, folder, torch.device("cpu"), lambda event, **_: told.append(event))
    matrix = torch.ones(200, 200)
    for step in steps:
        profiler.begin(step)
        for _ in range(step):
            torch.mm(matrix, matrix)
        profiler.end(step)
    profiler.close()
    return told


def operations(trace: Path) -> list[str]:
    return [event["name"] for event in json.loads(trace.read_text())["traceEvents"] if event.get("cat") == "cpu_op"]


def test_a_trace_holds_the_operations_of_its_steps(tmp_path: Path) -> None:
    assert profiled(tmp_path, 3, range(1, 7)) == ["profile"]
    assert operations(tmp_path / "trace-00000003.json").count("aten::mm") == 3 + 4


def test_what_is_not_profiled(tmp_path: Path) -> None:
    """A start after the first step, and one that ends before the last."""
    for steps in (range(4, 8), range(1, 4)):
        assert profiled(tmp_path, 3, steps) == []
    assert list(tmp_path.iterdir()) == []


def test_a_trace_that_cannot_be_written_costs_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder is a file; or a full disk cuts the trace off, and the library says nothing."""
    (tmp_path / "run").write_text("a file")
    assert profiled(tmp_path / "run", 1, range(1, 4)) == ["profile_failed"]
    (tmp_path / "run").unlink()
    begun = '{"traceEvents": ['
    monkeypatch.setattr(torch.profiler.profile, "export_chrome_trace", lambda _, path: Path(path).write_text(begun))
    assert profiled(tmp_path, 1, range(1, 4)) == ["profile_failed"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_profile_changes_no_bit(two_ranks: RankPool, tmp_path: Path, shards: Path) -> None:
    """Losses, norms and the saved state, with dropout, of two ranks of which one is profiled."""
    config = write_config(tmp_path / "train.yaml", shards, tmp_path / "plain", zero__stage=2)
    changes = [f"output={tmp_path / 'profiled'}", "profile={from: 3, steps: 2}"]
    assert two_ranks.run(start, config, []) == [(0, "")] * 2
    assert two_ranks.run(start, config, changes) == [(0, "")] * 2
    outputs = [tmp_path / "plain", tmp_path / "profiled"]
    assert logged(outputs[0]) == logged(outputs[1])
    parts = [sorted(output.glob("checkpoints/step-*/part-*")) for output in outputs]
    assert len(parts[0]) == 2
    assert [part.read_bytes() for part in parts[0]] == [part.read_bytes() for part in parts[1]]
    (event,) = events(outputs[1], "profile")
    assert (event["step"], event["steps"], event["trace"]) == (4, 2, "trace-00000003.json")
    names = set(operations(outputs[1] / event["trace"]))
    assert {"aten::mm", "aten::_fused_adamw_"} <= names, "forward pass and update"
    assert any("backward" in name.lower() for name in names)
