"""Losses of a study's runs on other held-out sets, and paths of its pipelines."""

import json

import pytest

from clozeline.configuration.overrides import parse_yaml
from clozeline.extensions.evaluation.commands.evaluate import SuiteOptions, evaluate_mode
from clozeline.extensions.studies.commands import study as tool
from clozeline.extensions.studies.study_sets import (
    _absolute,
)
from clozeline.train.logs.json_lines import read_lines
from tests.extensions.studies.small_study import write_study
from tests.refusals import refused


@pytest.mark.slow
def test_losses_are_those_of_the_trainer(shard_sets, tmp_path, monkeypatch):
    folder = write_study(tmp_path, flops=6e9, one="masked_lm", two="unilm")
    sets = shard_sets / "corrupt"  # there already
    monkeypatch.setattr(
        tool, "make_all_sets", lambda _, output, variants, *more: dict.fromkeys(variants, sets)
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
    of_study = json.loads((tmp_path / "out/scores/plain-0.json").read_text())["pairs"]["pll"]

    assert (of_study["n"], of_study["accuracy"]) == (3, alone["accuracy"])
    assert of_study["baselines"]["shorter"] == alone["baselines"]["shorter"] == 0


def test_every_path_of_a_list_is_absolute(tmp_path, monkeypatch):
    """The pipeline of a study starts in another folder."""
    monkeypatch.chdir(tmp_path)
    here = f"{tmp_path}/a.jsonl"
    other = f"{tmp_path}/b/*.txt"
    given = (
        "[a.jsonl, {path: 'b/*.txt', source: books}, {path: [a.jsonl, s3://bucket/c.jsonl]}, "
        "/d.txt]"
    )
    wanted = [
        here,
        {"path": other, "source": "books"},
        {"path": [here, "s3://bucket/c.jsonl"]},
        "/d.txt",
    ]

    assert parse_yaml(_absolute(given)) == wanted
    assert _absolute("a.jsonl") == here
    assert parse_yaml(_absolute("{path: a.jsonl}")) == {"path": here}

    with refused("cannot be read as YAML"):
        _absolute("[a.jsonl, {")
