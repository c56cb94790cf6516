"""Values of `data`, and what follows from them."""

from __future__ import annotations

from math import gcd
from pathlib import Path
from typing import Any

import pytest

from clozeline.configuration.config import to_plain, validate
from clozeline.errors import ConfigurationError
from clozeline.train.configuration.data import DataConfig


def config(**keys: Any) -> DataConfig:
    found: DataConfig = validate(DataConfig, keys, "test", "data.")
    return found


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "expected shards or phases, got neither"),
        ({"shards": "a", "phases": [{"shards": "b"}]}, "expected shards or phases, got both"),
        ({"phases": [{"shards": "b"}], "weights": [1.0]}, "each phase has weights of its own"),
        ({"shards": "a", "max_corrupt_fraction": 0.1}, "max_damaged_fraction"),
        ({"shards": "a", "weights": [0.0]}, "weights"),
        ({"shards": "a", "global_batch": 0}, "global_batch"),
        ({"shards": "a", "max_damaged_fraction": 1.5}, "max_damaged_fraction"),
        ({"phases": [{"shards": "a", "until": 3}]}, "until_samples"),
    ],
)
def test_contradictions_are_named(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        config(**keys)


def test_shards_alone_are_one_endless_phase() -> None:
    found = config(shards=["a", "b"], weights=[1.0, 3.0]).all_phases
    assert list(found) == ["data.shards"]
    (phase,) = found.values()
    assert (phase.sets, phase.weights, phase.until_samples) == ([Path("a"), Path("b")], [1.0, 3.0], None)


def test_phases_are_named_by_their_key_and_the_first_set_is_of_the_first() -> None:
    found = config(phases=[{"shards": "a", "until_samples": 64}, {"shards": ["b", "c"], "global_batch": 48}])
    assert list(found.all_phases) == ["data.phases[0].shards", "data.phases[1].shards"]
    assert found.first_set == Path("a")


@pytest.mark.parametrize(("batches", "lanes"), [([64], 64), ([96], 32), ([64, 48], 16), ([12, 18], 2), ([512], 64)])
def test_lanes_divide_every_global_batch(batches: list[int], lanes: int) -> None:
    phases = [{"shards": "a", "until_samples": 10**6, "global_batch": size} for size in batches[1:]]
    found = config(phases=[*phases, {"shards": "a"}], global_batch=batches[0])
    assert found.lane_count == lanes == gcd(64, *batches)
    assert config(shards="a", global_batch=batches[0], lanes=2).lane_count == 2


def test_urls_keep_their_double_slash_when_written() -> None:
    """`Path` folds it; what is written must name the same set when it is read again."""
    given = {"shards": ["s3://bucket/set", "local/set"], "heldout": {"news": "https://h/x"}}
    plain = to_plain(config(**given))
    assert (plain["shards"], plain["heldout"]) == (given["shards"], given["heldout"])
    assert to_plain(validate(DataConfig, plain, "test")) == plain
