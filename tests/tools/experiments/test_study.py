"""A small study from begin to end: figures of the trainer itself, and nothing done twice."""

import json

import pytest

from clozeline.tools.experiments import study as tool
from clozeline.tools.experiments.multirun import runner
from clozeline.tools.runs.evaluate import SuiteOptions, evaluate_mode
from clozeline.train.logs.json_lines import read_lines
from tests.tools.experiments.multirun.small_study import write_study


@pytest.mark.slow
def test_losses_are_those_of_the_trainer(shard_sets, tmp_path, monkeypatch, capsys):
    folder = write_study(tmp_path, flops=6e8, one="masked_lm", two="unilm")
    sets = shard_sets / "corrupt"  # there already
    monkeypatch.setattr(tool, "make_all_sets", lambda _, output, variants, *more: dict.fromkeys(variants, sets))
    monkeypatch.setenv("MASTER_PORT", "29500")  # of the user's own; runs beside one another need a port each
    words = [str(folder), "--output", str(tmp_path / "out")]
    assert tool.main(words) == 0
    first = (tmp_path / "out" / "study.txt").read_text()
    assert ", one seed; nats on held-out rows" in first
    (claim,) = [line for line in first.splitlines() if line.startswith("masked: plain below mixed by")]
    assert claim.endswith(" (one seed). none")
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

    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"good": "one of the men was there", "bad": "the of was"}\n' * 3)
    assert tool.main([*words, "--pairs", str(pairs)]) == 0
    run = tmp_path / "out" / "runs" / "plain-0"
    alone = json.loads(evaluate_mode(run, SuiteOptions(suite="pairs", input=pairs, score="pll"))[0])
    of_study = json.loads((tmp_path / "out" / "scores" / "plain-0.json").read_text())["pairs"]["pll"]
    assert (of_study["n"], of_study["accuracy"]) == (3, alone["accuracy"])
    assert of_study["baselines"]["shorter"] == alone["baselines"]["shorter"] == 0
    assert "minimal pairs, plain by pll" in (with_pairs := (tmp_path / "out" / "study.txt").read_text())
    assert with_pairs.startswith(first)

    def never(*_, **__):
        raise AssertionError("it was done")

    monkeypatch.setattr(runner, "run_step", never)
    assert tool.main(words) == 0
    assert (tmp_path / "out" / "study.txt").read_text() == with_pairs
    assert with_pairs in capsys.readouterr().out
