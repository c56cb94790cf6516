"""What a return to a checkpoint needs is checked before the first step."""

from __future__ import annotations

from typing import Any

import pytest

from clozeline.errors import ConfigurationError
from tests.train.synthetic import tiny

ON: dict[str, Any] = {"on_divergence": {}, "max_consecutive_skips": 20}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"checkpoint__every": None}, "on_divergence: returns to a checkpoint: expected checkpoint.every, got null"),
        (
            {"checkpoint__every": 10},
            r"checkpoint.keep_last: on_divergence needs 4 or more \(rollback 1, and 2 saves in the 20 steps of a "
            r"divergence\), got 2",
        ),
        ({"on_divergence": {"rollback": 2}}, r"needs 3 or more \(rollback 2, and 0 saves in the 20 steps"),
        ({"on_divergence": {"spikes": 9}, "log__every": 120}, r"needs 3 or more \(rollback 1, and 1 saves in the 1080"),
        (
            {"on_divergence": {"spikes": 9}, "log__spike": None},
            "on_divergence.spikes: counts spikes of the loss, which",
        ),
        ({"on_divergence": {"spikes": 51}}, "on_divergence.spikes: expected"),
        ({"on_divergence": {"rollback": 0}}, "on_divergence.rollback: expected"),
        (
            {"prune": {"name": "magnitude", "sparsity": 0.5}},
            "on_divergence: what prune: magnitude removed stays so: remove one of the two keys",
        ),
        (
            {"optimizer": {"name": "nt_asgd"}, "evaluate__every": 2},
            "on_divergence: nt_asgd cannot stop to average again: remove the key",
        ),
    ],
)
def test_what_cannot_return_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        tiny(**{**ON, **change})


def test_what_can_return_is_accepted() -> None:
    assert tiny(**ON).on_divergence.max_rollbacks == 3
    tiny(**ON, checkpoint__every=10, checkpoint__keep_last=4)
    tiny(**{**ON, "on_divergence": {"rollback": 2, "spikes": 50}}, checkpoint__keep_last=3)
