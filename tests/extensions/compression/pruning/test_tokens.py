"""Learned token pruning: the steps of a loop written out, one rule at all stages and ranks, and
refusals."""

import pytest
import torch

from clozeline.extensions.compression.registries import PRUNING
from clozeline.extensions.compression.token_pruning import TokenPruning
from clozeline.extensions.compression.token_rules import LearnedRetention, LearnedThresholds
from clozeline.model.build import Model, build_model
from tests.extensions.compression.pruning.pruned import plain_adamw, pruned, started, train
from tests.matrices import mark_slow_after
from tests.refusals import refused
from tests.train.synthetic import VOCABULARY, random_rows, tiny, train_steps

RETENTION = {"name": "tokens", "rule": "retention", "weight": 0.02, "harden": 5, "positions": 7}
THRESHOLDS = {
    "name": "tokens",
    "rule": "thresholds",
    "weight": 0.5,
    "last": 0.05,
    "temperature": 0.03,
}
RULES = {
    "retention": {**RETENTION, "learning_rate": 0.5},
    "thresholds": {**THRESHOLDS, "learning_rate": 0.02},
}
LAST_SOFT = {"retention": 5, "thresholds": 4}
CASE = {"prune": {key: value for key, value in RETENTION.items() if key != "name"}}


def plain_loop(world, config, name):
    """One process: AdamW for the model, Adam for the rule, and the hard rule after the last step
    with masks.

    Returns losses, the numbers of the rule, and the mean gradient of its values.
    """
    model = build_model(config.model, VOCABULARY, {}, seed=1)
    soft = LearnedRetention(2, 7) if name == "retention" else LearnedThresholds(2, 0.05, 0.03)
    of_model = plain_adamw(model.parameters())
    of_rule = torch.optim.Adam(soft.parameters(), lr=1.0)
    weight = config.prune.value.options.weight
    pruning = TokenPruning(model, soft)
    schedule = config.schedule.build(8)
    losses = []

    for step in range(1, 9):
        for group in of_model.param_groups:
            group["lr"] = 0.003 * schedule(step)
        of_rule.param_groups[0]["lr"] = config.prune.value.options.learning_rate * schedule(step)
        parts = pruning(random_rows(step, 8, 0, 8))
        task, penalty = (parts[key].total / parts[key].count for key in ("masked_lm", "tokens"))
        (task + weight * penalty).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        of_model.step()
        of_model.zero_grad()

        if step <= LAST_SOFT[name]:
            of_rule.step()
            of_rule.zero_grad()
            if name == "retention":
                soft.retention.data.clamp_(0, 1)

        if step == LAST_SOFT[name]:
            pruning = TokenPruning(model, soft.harden())
        losses.append(float((task + penalty).detach()))

    (numbers,) = vars(soft.harden()).values()
    (states,) = of_rule.state.values()
    return losses, [*numbers], states["exp_avg"]


def trained_rule(world, config):
    """The losses of 8 steps, the rule after 3 and after all of them, and the mean gradient of its
    values."""
    engine = started(config, world)
    (pruning,) = engine.hooks
    losses = train_steps(engine, 1, 3)
    before = dict(pruning.in_state["token_rule"])
    losses += train_steps(engine, 4, 8)
    rule = dict(pruning.in_state["token_rule"])
    mean = pruning.buffers.get("prune.exp_avg")
    engine.close()
    return (
        [float.fromhex(loss) for loss, _ in losses],
        before,
        rule,
        None if mean is None else mean.tolist(),
    )


@pytest.mark.parametrize(
    ("name", "size", "stage"), mark_slow_after(1, [("retention", 2, 3), ("thresholds", 1, 1)])
)
def test_masks_then_dropped_tokens_as_in_a_plain_loop(one_rank, two_ranks, name, size, stage):
    ((expected, numbers, gradient),) = one_rank.run(plain_loop, pruned(RULES[name]), name)
    ranks = (two_ranks if size == 2 else one_rank).run(
        trained_rule, pruned(RULES[name], zero__stage=stage)
    )

    assert ranks[0] == ranks[-1]

    losses, before, rule, mean = ranks[0]

    assert losses == pytest.approx(expected, rel=2e-5)
    assert before == {}, "no token is dropped yet"

    ((key, learned),) = rule.items()

    assert key == {"retention": "shares", "thresholds": "thresholds"}[name]
    assert learned == pytest.approx(numbers, rel=1e-4)
    torch.testing.assert_close(torch.tensor(mean), gradient, rtol=1e-3, atol=1e-6)
    assert learned != pytest.approx((1.0, 1.0) if name == "retention" else (0.025, 0.05)), (
        "it learned"
    )


def test_shares_drop_tokens_from_the_first_step(one_rank):
    config = pruned({"name": "tokens", "rule": "shares", "shares": [0.7, 0.4]})
    ((_, before, rule, _),) = one_rank.run(trained_rule, config)

    assert before == rule == {"shares": (0.7, 0.4)}

    full = pruned({"name": "tokens", "rule": "shares", "shares": [1.0, 1.0]})

    assert one_rank.run(train, full)[0][0] == one_rank.run(train, pruned(None))[0][0], (
        "bit-identical"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "retention"}, "weight: the rule retention needs"),
        (
            {"rule": "shares", "shares": [0.5, 0.4], "weight": 1.0},
            "weight: the rule shares does not read it",
        ),
        (
            {"rule": "thresholds", "weight": 1.0, "positions": 9},
            "positions: the rule thresholds does not read it",
        ),
        ({"rule": "thresholds", "weight": 1.0, "last": 1.5}, "last"),
    ],
)
def test_options_that_fit_no_rule_are_refused(options, message):
    with refused(message):
        PRUNING.resolve({"name": "tokens", **options})


@pytest.mark.parametrize("shares", [[0.5], [0.4, 0.5], [1.5, 0.5]])
def test_shares_out_of_range_are_refused(shares):
    with refused("token pruning: shares: expected a number per layer"):
        describe({"rule": "shares", "shares": shares}, tiny())


def describe(options, config, horizon=8):
    with torch.device("meta"):
        built = Model(config.model, VOCABULARY)
    return PRUNING.resolve({"name": "tokens", **options}).build().describe(built, horizon)


def test_a_start_says_the_rule_and_refuses_steps_and_models():
    learned = {"rule": "thresholds", "weight": 0.5}

    assert "thresholds of tokens, masks until step 4" in describe(learned, tiny())

    last = (
        PRUNING.resolve({"name": "tokens", **learned})
        .build()
        .prune(build_model(tiny().model, VOCABULARY, {}, seed=1))
    )

    assert last.rule.thresholds[-1].item() == pytest.approx(0.01)
    assert "masks until step 8" in describe({**learned, "harden": 8}, tiny())

    with refused(r"prune\.harden: expected at most 8"):
        describe({**learned, "harden": 9}, tiny())
    causal = tiny(model__family="decoder", model__heads={"lm": 1.0})
    with refused(r"got model\.family=decoder"):
        describe(learned, causal)
    mixing = tiny(model__heads={"tagging": {"classes": 3, "scalar_mix": True}})

    with refused("expected heads that read the last states of one row, got tagging"):
        describe(learned, mixing)


def test_a_rule_has_the_values_of_the_paper_where_none_are_given():
    model = tiny().model

    for keys, kind, expected in (
        ({"rule": "retention", "weight": 0.5}, LearnedRetention, {"positions": 32}),
        ({"rule": "thresholds", "weight": 0.5}, LearnedThresholds, {"temperature": 2e-3}),
        (
            {"rule": "thresholds", "weight": 0.5, "last": 0.0},
            LearnedThresholds,
            {"temperature": 2e-3},
        ),
    ):
        pruning = PRUNING.resolve({"name": "tokens", **keys}).build()
        found = pruning.prune(build_model(model, VOCABULARY, {}))
        assert isinstance(found.rule, kind)
        assert {key: getattr(found.rule, key) for key in expected} == expected
        if kind is LearnedThresholds:
            assert found.rule.thresholds[-1].item() == pytest.approx(keys.get("last", 0.01))
