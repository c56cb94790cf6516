"""Losses of a study's runs on other held-out sets."""

import json

import pytest

from clozeline.extensions.evaluation.commands.evaluate import SuiteOptions, evaluate_mode
from clozeline.extensions.studies.commands import study as tool
from clozeline.extensions.studies.study_plan import StudySets
from clozeline.train.logs.json_lines import read_lines
from tests.extensions.studies.small_study import write_study


@pytest.mark.slow
def test_losses_are_those_of_the_trainer(shard_sets, tmp_path, monkeypatch):
    folder = write_study(tmp_path, flops=6e9, one="masked_lm", two="unilm")
    sets = shard_sets / "corrupt"  # there already
    monkeypatch.setattr(
        tool,
        "make_all_sets",
        lambda _, output, variants, *more: StudySets(dict.fromkeys(variants, sets)),
    )
    # of the user's own; runs beside one another need a port each
    monkeypatch.setenv("MASTER_PORT", "29500")
    words = [str(folder), "--output", f"{tmp_path}/out", "--flops", "6e8"]

    assert tool.main(words) == 0

    first = (tmp_path / "out/study.txt").read_text()

    (claim,) = [
        line for line in first.splitlines() if line.startswith("masked: does plain beat mixed?")
    ]
    better, worse = (
        json.loads((tmp_path / "out/scores" / f"{name}-0.json").read_text())["losses"]["masked"]
        for name in ("plain", "mixed")
    )

    assert (
        f"undecided: one seed: {worse - better:+.3f} (one seed) ({better:.3f} against {worse:.3f};"
        in claim
    )

    for name, measures in {
        "plain-0": ["masked"],
        "mixed-0": ["masked", "other"],
    }.items():
        scores = json.loads((tmp_path / "out/scores" / f"{name}.json").read_text())
        metrics = read_lines(tmp_path / "out/runs" / name / "metrics.jsonl")

        assert list(scores["losses"]) == measures
        assert (scores["steps"], scores["tokens"]) == (metrics[-1]["step"], metrics[-1]["tokens"])

        for measure in measures:
            loss = metrics[-1]["heldout"][measure]["loss"]
            assert scores["losses"][measure] == pytest.approx(loss, rel=1e-5)

    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"good": "one of the men was there", "bad": "the of was"}\n' * 3)

    assert tool.main([*words, "--pairs", str(pairs)]) == 0

    run = tmp_path / "out/runs/plain-0"
    alone = json.loads(
        evaluate_mode(SuiteOptions(run=run, suite="pairs", input=pairs, score="pll"))[0]
    )
    of_study = json.loads((tmp_path / "out/scores/pairs/plain-0.json").read_text())["pll"]

    assert (of_study["n"], of_study["accuracy"]) == (3, alone["accuracy"])
    assert of_study["baselines"]["shorter"] == alone["baselines"]["shorter"] == 0
