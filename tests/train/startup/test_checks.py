from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from clozeline.errors import ConfigurationError
from clozeline.train.startup.checks import fill_in_answers
from tests.train.synthetic import tiny

NO_SETS: Any = SimpleNamespace(phases=(), heldout={})


def test_sets_without_a_task_change_nothing() -> None:
    config = tiny()
    assert fill_in_answers(config, NO_SETS) == config


def test_early_stopping_needs_a_held_out_set() -> None:
    config = tiny(early_stop={"metric": "heldout/loss"}, evaluate={"every": 1})
    with pytest.raises(ConfigurationError, match="of which there is none"):
        fill_in_answers(config, NO_SETS)
