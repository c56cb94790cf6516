"""Token pruning in training: a loop written out, the stored shares, and refusals."""

import pytest
import torch

from clozeline.extensions.compression.registries import PRUNING
from clozeline.extensions.compression.token_pruning import TokenPruning
from clozeline.extensions.compression.token_rules import TopTokens
from clozeline.model.build import Model, build_model
from tests.extensions.compression.pruning.pruned import plain_adamw, pruned, started, train
from tests.refusals import refused
from tests.train.synthetic import VOCABULARY, random_rows, tiny, train_steps

SHARES = [0.7, 0.4]
CASE = {"prune": {"shares": SHARES}}


def plain_loop(world, config):
    """Losses of one process, in which AdamW trains the model that drops tokens."""
    model = TokenPruning(build_model(config.model, VOCABULARY, {}, seed=1), TopTokens((0.7, 0.4)))
    optimizer = plain_adamw(model.parameters())
    schedule = config.schedule.build(8)
    losses = []

    for step in range(1, 9):
        for group in optimizer.param_groups:
            group["lr"] = 0.003 * schedule(step)
        loss = model(random_rows(step, 8, 0, 8))["masked_lm"]
        (loss.total / loss.count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float((loss.total / loss.count).detach()))

    return losses


def losses_and_state(world, config):
    engine = started(config, world)
    losses = [float.fromhex(loss) for loss, _ in train_steps(engine, 1, 8)]
    state = dict(engine.hooks[0].in_state)
    engine.close()
    return losses, state


@pytest.mark.parametrize("stage", [1, 3])
def test_tokens_are_dropped_as_in_a_plain_loop(one_rank, two_ranks, stage):
    config = pruned({"name": "tokens", "shares": SHARES})
    (expected,) = one_rank.run(plain_loop, config)
    ranks = two_ranks.run(
        losses_and_state, pruned({"name": "tokens", "shares": SHARES}, zero__stage=stage)
    )

    assert ranks[0] == ranks[-1]

    losses, state = ranks[0]

    assert losses == pytest.approx(expected, rel=2e-5)
    assert state == {"token_rule": {"shares": tuple(SHARES)}}


def test_shares_of_1_change_no_bit(one_rank):
    full = pruned({"name": "tokens", "shares": [1.0, 1.0]})
    assert one_rank.run(train, full)[0][0] == one_rank.run(train, pruned(None))[0][0]


def describe(shares, config):
    with torch.device("meta"):
        built = Model(config.model, VOCABULARY)
    return PRUNING.resolve({"name": "tokens", "shares": shares}).build().describe(built, 8)


@pytest.mark.parametrize(
    ("shares", "changes", "message"),
    [
        ([0.5], {}, r"shares: expected a number in .* per layer \(2\)"),
        ([0.4, 0.5], {}, "never rising"),
        ([1.5, 0.5], {}, r"shares: expected a number in .* per layer \(2\)"),
        (
            SHARES,
            {"model__family": "decoder", "model__heads": {"lm": 1.0}},
            r"got model\.family=decoder",
        ),
        (
            SHARES,
            {"model__heads": {"tagging": {"classes": 3, "scalar_mix": True}}},
            "expected heads that read the last states of one row, got tagging",
        ),
    ],
)
def test_shares_and_models_that_do_not_fit_are_refused(shares, changes, message):
    with refused(message):
        describe(shares, tiny(**changes))
