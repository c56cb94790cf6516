"""A small study from begin to end: figures of the trainer itself, and nothing done twice."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from clozeline.tools.experiments import study as tool
from clozeline.tools.experiments.multirun import runner
from clozeline.tools.experiments.multirun.study_plan import Ordering, Study
from clozeline.tools.experiments.multirun.study_sets import Documents
from clozeline.tools.runs.evaluate import EvaluateOptions, evaluate_texts
from clozeline.train.logs.json_lines import read_lines
from tests.tools.experiments.multirun.small_study import write_study


@pytest.mark.parametrize(("seeds", "said", "word"), [(1, "one seed", "one seed"), (3, "3 seeds", "held")])
def test_the_table_says_how_many_seeds_a_verdict_has(seeds: int, said: str, word: str) -> None:
    claim = Ordering(measure="masked", lower="plain", higher="mixed", said="said by nobody")
    study = Study(title="a study", flops=1e9, seeds=seeds, orderings=[claim], variants={})
    draws = np.random.default_rng(0)
    runs = {
        name: [{"steps": 1, "tokens": 8, "losses": {"masked": loss + draws.normal(0, 0.01)}} for _ in range(seeds)]
        for name, loss in (("plain", 3.0), ("mixed", 3.5))
    }
    first, *_, last = tool._table_lines(study, runs)
    assert first.endswith(f"{said}; nats on held-out rows")
    means = [np.mean([of_seed["losses"]["masked"] for of_seed in runs[name]]) for name in ("mixed", "plain")]
    assert last.startswith(f"masked: plain below mixed by {means[0] - means[1]:+.3f}")
    assert last.endswith(f": {word}. said by nobody")


def test_the_first_measure_says_whether_a_step_pays() -> None:
    variants: Any = {"raw": SimpleNamespace(base=None), "filters": SimpleNamespace(base="raw")}
    left = {"raw": Documents(8, 1000, 1.0), "filters": Documents(6, 500, 3.0)}

    def runs(loss: float) -> list[dict[str, Any]]:
        return [{"losses": {"prose": loss + more, "leaked": loss}} for more in (-0.01, 0.0, 0.01)]

    for loss, word in ((3.0, "pays"), (4.0, "costs"), (3.5, "undecided")):
        lines = list(tool._step_lines(variants, {"raw": runs(3.5), "filters": runs(loss)}, left))
        assert [line.split() for line in lines[1:3]] == [["raw", "8"], ["filters", "6", "2", "0.500", "+2.0"]]
        assert lines[-2].startswith("prose: filters gains ")
        assert lines[-2].endswith(f" nats: {word}")
        assert lines[-1].startswith("leaked: filters gains ")
        assert lines[-1].endswith(" nats")


@pytest.mark.slow
def test_losses_are_those_of_the_trainer(
    shard_sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_study(tmp_path, flops=6e8, one="masked_lm", two="unilm")
    sets = shard_sets / "corrupt"  # there already
    monkeypatch.setattr(tool, "make_all_sets", lambda _, output, variants, *more: dict.fromkeys(variants, sets))
    monkeypatch.setenv("MASTER_PORT", "29500")  # of the user's own; runs beside one another need a port each
    words = [str(folder), "--output", str(tmp_path / "out")]
    assert tool.main(words) == 0
    first = (tmp_path / "out" / "study.txt").read_text()
    assert ", one seed; nats on held-out rows" in first
    (claim,) = [line for line in first.splitlines() if line.startswith("masked: plain below mixed by")]
    assert ": one seed. none" in claim
    for name, measures in {"plain-0": ["masked"], "mixed-0": ["masked", "other"]}.items():
        scores = json.loads((tmp_path / "out" / "scores" / f"{name}.json").read_text())
        metrics = read_lines(tmp_path / "out" / "runs" / name / "metrics.jsonl")
        assert list(scores["losses"]) == measures
        assert (scores["steps"], scores["tokens"]) == (metrics[-1]["step"], metrics[-1]["tokens"])
        for measure in measures:
            loss = metrics[-1]["heldout"][measure]["loss"]
            assert scores["losses"][measure] == pytest.approx(loss, rel=1e-5)

    shown = (tmp_path / "out" / "study.html").read_text()
    assert "masked loss (nats) over FLOPs" in shown
    assert "plain from" in shown
    drawn = (tmp_path / "out" / "study.svg").read_text()
    assert all(f">{name}</text>" in drawn for name in ("plain", "mixed"))

    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"good": "one of the men was there", "bad": "the of was"}\n' * 3)
    assert tool.main([*words, "--pairs", str(pairs)]) == 0
    run = tmp_path / "out" / "runs" / "plain-0"
    alone = json.loads(evaluate_texts(run, EvaluateOptions(suite="pairs", input=pairs, score="pll"))[0])
    of_study = json.loads((tmp_path / "out" / "scores" / "plain-0.json").read_text())["pairs"]["pll"]
    assert (of_study["n"], of_study["accuracy"]) == (3, alone["accuracy"])
    assert of_study["baselines"]["shorter"] == alone["baselines"]["shorter"] == 0
    assert "minimal pairs, plain by pll" in (with_pairs := (tmp_path / "out" / "study.txt").read_text())
    assert with_pairs.startswith(first)

    def never(*_: object, **__: object) -> float:
        raise AssertionError("it was done")

    monkeypatch.setattr(runner, "run_step", never)
    assert tool.main(words) == 0
    assert (tmp_path / "out" / "study.txt").read_text() == with_pairs
    assert with_pairs in capsys.readouterr().out
