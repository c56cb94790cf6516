"""A small race by the real trainer: entries stop at what the baseline reached, and nothing is done twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clozeline.tools.experiments import race as tool
from clozeline.tools.experiments.multirun import runner
from clozeline.tools.experiments.multirun.race_rules import find_changed_sets
from clozeline.train.logs.json_lines import read_lines
from tests.distributed import RankPool
from tests.tools.experiments.multirun.small_race import HELDOUT, entry, write_race, write_sets
from tests.train.test_run import start


@pytest.mark.slow
def test_a_race(
    one_rank: RankPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    sets = write_sets(output / "sets")
    plain = entry(steps=40, schedule__steps=40, optimizer__learning_rate=0.002)
    folder = write_race(tmp_path / "race", sets, plain=plain)
    fast = entry("a higher rate", steps=40, schedule__steps=40, optimizer__learning_rate=0.02)
    slow = entry("hardly any rate", steps=8, schedule__steps=8, optimizer__learning_rate=1e-7)
    for name, one in {"fast": fast, "slow": slow}.items():
        (tmp_path / f"{name}.yaml").write_text(json.dumps(one), encoding="utf-8")
    monkeypatch.setattr(tool, "_make_sets", lambda race, *_: find_changed_sets(race, sets))  # they exist

    def trained(ranks: int, config: Path, *, accelerator: str, variables: dict[str, str]) -> None:
        assert (ranks, accelerator, variables) == (1, "cpu", {"OMP_NUM_THREADS": "1"})
        assert one_rank.run(start, config, []) == [(0, "")]

    monkeypatch.setattr(runner, "start_training", trained)
    words = [str(folder), "--output", str(output), "--seeds", "1"]
    words += ["--entry", str(tmp_path / "fast.yaml"), "--entry", str(tmp_path / "slow.yaml")]
    assert tool.main(words) == 0
    table = (output / "race.txt").read_text(encoding="utf-8")
    assert table in capsys.readouterr().out
    facts: dict[str, Any] = json.loads((output / "race.json").read_text(encoding="utf-8"))
    figures, target, losses = facts["results"], facts["target"], {}
    for name, (found,) in figures.items():
        (run,) = (path for path in (output / "runs").glob(f"{name}-*-0") if path.is_dir())
        records = read_lines(run / "metrics.jsonl")
        losses[name] = {one["step"]: one["heldout"]["heldout"]["loss"] for one in records if "heldout" in one}
        if name != "plain":  # it makes all of its steps, and is compared by those until the target
            assert (found["steps"], found["loss"]) == (len(records), losses[name][len(records)])
            assert found["tokens"] == records[-1]["tokens"]
        assert 0 < found["seconds"] < 100
    assert {name: found["reached"] for name, (found,) in figures.items()} == {
        "plain": True,
        "fast": True,
        "slow": False,
    }
    assert target - 0.01 < min(losses["plain"].values()) <= target
    assert list(losses["plain"]) == list(range(4, 41, 4))
    *before, (last, reached) = losses["fast"].items()
    assert reached <= target < min((loss for _, loss in before), default=9.0)
    assert last < 40, "it stopped there"
    assert list(losses["fast"]) == list(range(4, last + 1, 4))
    assert list(losses["slow"]) == [4, 8]
    assert "the sets are those of the records" in table
    (record,) = [line for line in table.splitlines() if line.startswith("| 20") and " fast " in line]
    assert "| a higher rate | `clozeline race " in record
    assert " slow " not in record
    assert "smallest file at or below" in table
    assert all(form["as trained"]["loss"] <= target for form in facts["sizes"]["fast"])
    drawn = (output / "race.svg").read_text(encoding="utf-8")
    assert all(f">{name}</text>" in drawn for name in ("plain", "fast"))
    assert ">slow</text>" not in drawn, "it has no seconds until the target"
    assert "Held-out loss (nats) over seconds of training" in (output / "race.html").read_text(encoding="utf-8")

    assert "halves/judging" in next((output / "runs").glob("fast-*.yaml")).read_text(encoding="utf-8")

    def never(*_: object, **__: object) -> float:
        raise AssertionError("it was done")

    monkeypatch.setattr(runner, "start_training", never)
    assert tool.main(words) == 0
    assert (output / "race.txt").read_text(encoding="utf-8") == table
    assert tool.main([*words, "--half", "tuning"]) == 1, "runs of its own, which are not done"


def test_mistakes_come_before_any_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = write_sets(tmp_path / "out" / "sets")
    folder = write_race(tmp_path / "race", sets, plain=entry())
    words = [str(folder), "--output", str(tmp_path / "out"), "--entry", str(tmp_path / "cheat.yaml")]
    (tmp_path / "cheat.yaml").write_text(json.dumps(entry(data__shards=HELDOUT)), encoding="utf-8")
    assert tool.main(words) == 64
    assert "cheat: train.data: expected sets of corrupt/masked_lm/train, got" in capsys.readouterr().err
    (tmp_path / "plain.yaml").write_text(json.dumps(entry()), encoding="utf-8")
    assert tool.main([*words[:-1], str(tmp_path / "plain.yaml")]) == 64
    assert "plain is always trained" in capsys.readouterr().err
    assert not list((tmp_path / "out" / "runs").glob("*/"))
