from __future__ import annotations

from typing import Any

import pytest

from clozeline.errors import ConfigurationError
from tests.train.synthetic import tiny


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log__tracker": "comet"}, "log.tracker: expected 'wandb' or 'mlflow', got 'comet'"),
        ({"log__spike": 0.0}, "log.spike: "),
        ({"log__every": 0}, "log.every: "),
        ({"log__trackr": "wandb"}, "unknown key 'log.trackr'; did you mean 'log.tracker'?"),
    ],
)
def test_mistakes_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        tiny(**change)
    assert message in str(caught.value)


def test_nothing_is_judged_or_sent_where_it_is_not_asked_for() -> None:
    config = tiny(log={"spike": None}).log
    assert (config.spike, config.tracker) == (None, None)
