"""Entries of objectives: a name, or one mapping with the entry's keys and the objective's beside each other."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from clozeline.configuration.config import config_class, validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.config import NamedObjective, inline_options
from tests.pipeline.corruption_cases import WORDS


@config_class
class Weighted(NamedObjective):
    """An entry with a key of its own."""

    weight: float = 1.0


@config_class
class Entries:
    """A configuration that holds such entries."""

    entries: list[Annotated[Weighted, inline_options(Weighted)]]


def entry(value: Any) -> Weighted:
    (found,) = validate(Entries, {"entries": [value]}, "test").entries
    assert isinstance(found, Weighted)
    return found


@pytest.mark.parametrize(
    ("value", "label", "weight", "length"),
    [
        ("masked_lm", "masked_lm", 1.0, 512),
        ({"name": "masked_lm", "max_length": 64}, "masked_lm", 1.0, 64),
        ({"name": "masked_lm", "max_length": 64, "label": "short", "weight": 2.5}, "short", 2.5, 64),
        ({"objective": {"name": "masked_lm", "max_length": 64}, "label": "nested"}, "nested", 1.0, 64),
    ],
)
def test_keys_of_the_entry_and_of_its_objective_may_be_side_by_side(
    value: Any, label: str, weight: float, length: int
) -> None:
    found = entry(value)
    assert (found.set_label, found.weight) == (label, weight)
    objective = found.build(WORDS)
    assert (objective.label, objective.options.max_length) == (label, length)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"name": "masked_lm", "label": "../a"}, "label"),
        ({"name": "masked_lm", "label": ""}, "label"),
        ({"name": "masked_lm", "weigth": 2}, "unknown key 'weigth'"),
        ({"name": "maskd_lm"}, "did you mean 'masked_lm'"),
        ({"weight": 2.0}, "name"),
    ],
)
def test_mistakes_are_told(value: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        entry(value)
