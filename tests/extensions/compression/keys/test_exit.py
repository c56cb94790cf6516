"""Off-ramps that a run trains and stores, the scores of rows that leave early, and the table of
models."""

import json

import pytest
import torch
from safetensors.torch import load_file

from clozeline.extensions.compression.commands.compress import main as compress
from clozeline.extensions.compression.comparison import MeasureOptions, measure_row
from clozeline.extensions.compression.early_exit import EarlyExit, Entropy
from clozeline.extensions.compression.keys.scoring.exit import ExitConfig
from clozeline.extensions.evaluation.commands.evaluate import EvaluateOptions, score_task
from clozeline.extensions.evaluation.commands.evaluate import main as evaluate
from clozeline.extensions.published.commands.export_model import main as export
from clozeline.extensions.tasks.task_run import open_task_run, set_rows
from clozeline.train.checkpoint.trained_model import TrainedModel
from tests.refusals import refused
from tests.train.masked_set import write_config
from tests.train.runs import saved, start, steps
from tests.train.synthetic import tiny


def train_exits(ranks, tuned, folder, exits, **changes):
    """A run with off-ramps that starts from a tuned run."""
    config = write_config(
        folder / f"{exits}.yaml",
        TrainedModel.open(tuned).config.data.first_set,
        folder / exits,
        steps=12,
        model__heads={"classification": {"hidden": "tanh", "exits": exits}},
        model__position={"maximum": 64},
        model__init_from=str(tuned),
        optimizer__learning_rate=0.01,
        schedule={"name": "constant"},
        **changes,
    )

    assert set(ranks.run(start, config)) == {(0, "")}

    return folder / exits


@pytest.fixture(scope="module")
def after(two_ranks, tuned, tmp_path_factory):
    zero = {"stage": 3, "persistent": 0}
    return train_exits(two_ranks, tuned, tmp_path_factory.mktemp("exits"), "after", zero=zero)


def test_off_ramps_alone_are_trained_after_the_body(after, tuned):
    before = saved(tuned)
    now = saved(after)

    assert all(torch.equal(tensor, now[name]) for name, tensor in before.items())
    assert all("off_ramps.0.classifier" in name for name in now.keys() - before.keys())
    assert len(now) == len(before) + 4

    losses = [step["losses"]["classification"] for step in steps(after)]

    assert losses[-1] < losses[0]
    assert steps(after)[-1]["figures"]["classification/exit_1"] == pytest.approx(
        losses[-1], rel=1e-6
    )


def evaluated(world, run, exits):
    return score_task(EvaluateOptions(run=run, split="train", exit=exits), world)[0]


def test_rows_that_leave_are_scored_with_what_they_used(after, two_ranks):
    opened = open_task_run(after, "train")
    rows = set_rows(opened.shards)
    batch = opened.batch(rows)
    early = EarlyExit(opened.trained.model, opened.head).eval()
    family = early.model.family
    ramp = early.model.heads["classification"].off_ramps[0]
    logs = (
        ramp.scores(family.apply_final_norm(family.layer_states(batch)[1]), batch)
        .detach()
        .log_softmax(-1)
    )

    sure = -(logs.exp() * logs).sum(-1).sort().values
    gap = int(sure.diff().argmax())
    entropy = float(sure[gap : gap + 2].mean())
    exits = early(batch, Entropy(entropy))

    assert set(exits.depths.tolist()) == {1, 2}

    found = json.loads(
        score_task(EvaluateOptions(run=after, split="train", exit=ExitConfig(entropy=entropy)))[0]
    )
    accuracy = (exits.scores.argmax(-1) == batch["label"]).double().mean()

    assert found["metrics"]["accuracy"] == pytest.approx(float(accuracy))
    assert found["exit"]["layers"] == pytest.approx(float(exits.depths.double().mean()))
    assert found["exit"]["flops"] == pytest.approx(float(exits.flops.sum() / exits.dense.sum()))
    assert [
        json.loads(text) for text in two_ranks.run(evaluated, after, ExitConfig(entropy=entropy))
    ] == [found] * 2


def test_the_table_holds_a_run_whose_rows_leave(after, tuned):
    """Above ln 2 all rows leave at the first classifier."""
    task = open_task_run(tuned, "dev").shards.path.parents[1]
    options = {"task": task, "repeats": 1, "length": 16}
    full = measure_row(after, tuned, MeasureOptions(**options))
    own = measure_row(after, tuned, MeasureOptions(**options, exit=ExitConfig(entropy=0.8)))

    assert own.name == "after, entropy below 0.8"
    assert full.sizes.flops == full.dense.flops == own.dense.flops
    assert own.score.values != full.score.values == full.dense_score.values
    assert own.sizes.flops == pytest.approx(own.score.flops * own.dense.flops)
    assert 0.5 < own.score.flops < 0.7
    assert own.latencies.keys() == {1, 32}


def test_an_export_has_no_off_ramps(after, tuned, tmp_path, capsys):
    for run in (tuned, after):
        assert export([str(run), str(tmp_path / run.name)]) == 0

    assert "without the off-ramps of classification" in capsys.readouterr().out

    weights = [load_file(tmp_path / run.name / "model.safetensors") for run in (tuned, after)]

    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


def test_mistakes(tuned, capsys):
    assert evaluate([str(tuned), "exit={entropy: 0.3}"]) == 64
    assert (
        "train it with model.heads.classification.exits=joint, or after" in capsys.readouterr().err
    )
    assert evaluate([str(tuned), "exit={entropy: 0.3, patience: 1}"]) == 64
    assert "exit: expected entropy or patience" in capsys.readouterr().err
    assert compress(["--compare", str(tuned), str(tuned), "exit={entropy: 0.3}"]) == 64
    assert "expected task=FOLDER" in capsys.readouterr().err

    run = tiny(model__heads={"classification": {"classes": 2, "exits": "after"}})
    (key,) = run.model.heads["classification"].parts()
    with refused("exits: after trains classifiers on a frozen"):
        key.check_run("model.heads.classification", run)
