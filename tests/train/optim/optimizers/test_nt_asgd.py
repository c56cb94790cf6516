"""Averaged SGD against the paper's algorithm 1, written out in numpy, and in whole runs."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clozeline.train.checkpoint.stored_checkpoint import CheckpointReader, StoredCheckpoint
from clozeline.train.optim.optimizers.nt_asgd import has_stopped_falling
from clozeline.train.registries import OPTIMIZERS
from tests.train.masked_set import write_config
from tests.train.runs import complete, evaluations

RATE = 0.4
DECAY = 0.05
PATIENCE = 2


def published(start, curvature, noise):
    """Algorithm 1 with an evaluation after each step: losses up to the trigger, T, and the mean of
    w_T, …, w_k."""
    weights = [start]
    logs = []
    trigger = 0

    for pushed in noise:
        last = weights[-1]
        weights.append(last - RATE * (curvature * last + pushed + DECAY * last))

        if not trigger:
            value = float((curvature * weights[-1] ** 2).sum())
            if len(logs) > PATIENCE and value > min(logs[:-PATIENCE]):
                trigger = len(weights) - 1
            logs.append(value)

    return logs, trigger, np.mean(weights[trigger:], axis=0)


@pytest.mark.parametrize("seed", range(2))
def test_weights_and_averages_are_those_of_the_paper_s_algorithm(seed):
    draws = np.random.default_rng(seed)
    start = draws.normal(size=7)
    curvature = draws.uniform(0.5, 2, 7)
    noise = draws.normal(size=(40, 7))
    logs, trigger, mean = published(start, curvature, noise)

    assert 0 < trigger < 40, "the case averages over some steps, and not over all of them"

    weight = torch.nn.Parameter(torch.tensor(start))
    builder = OPTIMIZERS.resolve(
        {"name": "nt_asgd", "learning_rate": RATE, "weight_decay": DECAY, "patience": PATIENCE},
    ).build()
    optimizer = builder.build([{"params": [weight], "name": "decay", "weight_decay": DECAY}])
    losses = []
    begun = []

    for step, pushed in enumerate(noise, start=1):
        weight.grad = torch.tensor(curvature) * weight.detach() + torch.tensor(pushed)
        optimizer.step()
        losses.append(float((torch.tensor(curvature) * weight.detach() ** 2).sum()))
        begun += [step] if builder.observe_eval_losses(optimizer, losses) else []

    assert begun == [trigger], "it begins once, where the paper does, and goes on"
    assert losses[: len(logs)] == pytest.approx(logs, rel=1e-12)
    assert optimizer.state[weight]["average"].numpy() == pytest.approx(mean, rel=1e-10)
    assert float(optimizer.state[weight]["averaged"]) == 40 - trigger + 1


@given(st.lists(st.integers(0, 6), max_size=14), st.integers(1, 4))
def test_the_trigger_is_that_of_the_authors_code(losses, patience):
    logs = []
    triggered = False
    for loss in losses:
        triggered = triggered or (len(logs) > patience and loss > min(logs[:-patience]))
        logs.append(loss)

    assert has_stopped_falling(losses, patience) == triggered


def test_a_loss_that_is_not_finite_is_the_worst_one():
    assert not has_stopped_falling([float("nan"), 5.0, 4.0, 3.0], 1)
    assert has_stopped_falling([3.0, 2.0, float("nan")], 1)
    assert not has_stopped_falling([float("inf"), 2.0, float("inf")], 1)


def test_held_out_losses_and_what_begins_from_the_run_are_those_of_the_average(
    one_rank, tmp_path, shards
):
    """A run that begins with its weights, and hardly moves, has its held-out loss."""
    chosen = {"name": "nt_asgd", "learning_rate": 2.0, "patience": 1}
    shared = {"schedule": {"name": "constant"}, "model__dropout": {}, "evaluate__every": 2}
    config = write_config(
        tmp_path / "a.yaml", shards, tmp_path / "a", optimizer=chosen, steps=12, **shared
    )

    complete(one_rank, config)

    last = evaluations(tmp_path / "a")[-1]["loss"]
    still = {"name": "adamw", "learning_rate": 1e-9}
    source = {"model__init_from": str(tmp_path / "a"), "steps": 1}
    config = write_config(
        tmp_path / "b.yaml", shards, tmp_path / "b", optimizer=still, **shared, **source
    )

    complete(one_rank, config)
    assert evaluations(tmp_path / "b")[-1]["loss"] == pytest.approx(last, rel=1e-5)

    found = StoredCheckpoint.find(tmp_path / "a")
    reader = CheckpointReader(found.folder, found.index)
    averages = found.read_weights()

    assert any(
        not torch.equal(reader.parameter("weight", name), average)
        for name, average in averages.items()
    )
