"""Rules of token pruning: what was learned becomes a rule, and the examples."""

import pytest
import torch

from clozeline.extensions.compression.token_rules import (
    LearnedRetention,
    LearnedThresholds,
    Threshold,
    TopTokens,
    read_rule,
    write_rule,
)


def test_learned_values_become_the_rules():
    rule = LearnedThresholds(3)

    assert rule.harden().thresholds == pytest.approx((0.01 / 3, 0.02 / 3, 0.01))

    rule.thresholds.data = torch.tensor([-0.25, 0.5, 2.0])

    assert rule.harden() == Threshold((0.0, 0.5, 1.0))

    schedule = LearnedRetention(3, 5)

    assert schedule.harden() == TopTokens((1.0, 1.0, 1.0))

    schedule.retention.data = torch.tensor(
        [[1.0, 0.5, 0.25, 0.0], [1.0, 1.0, 1.0, 0.1], [0.0, -2.0, 0.0, 0.0]]
    )

    assert schedule.harden() == TopTokens((0.6, 0.6, 0.2)), (
        "1 + 1.75, 1 + 3.1, 1 + 0, rounded up and never rising"
    )

    schedule.retention.data *= 3
    schedule.clip()

    assert schedule.retention.tolist() == [
        [1, 1, 0.75, 0],
        [1, 1, 1, pytest.approx(0.3)],
        [0, 0, 0, 0],
    ]


def test_a_rule_is_read_from_the_state_of_a_checkpoint():
    assert read_rule({}) is None
    assert read_rule({"shares": (1.0, 0.5)}) == TopTokens((1.0, 0.5))
    assert read_rule({"thresholds": (0.0, 0.25)}) == Threshold((0.0, 0.25))

    for rule in (TopTokens((1.0, 0.5)), Threshold((0.0, 0.25))):
        assert read_rule(write_rule(rule)) == rule

    assert write_rule(LearnedThresholds(2)) == {}
