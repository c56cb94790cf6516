"""Keys of stages: another configuration has another one."""

from __future__ import annotations

import pytest

from clozeline.configuration.config import validate
from clozeline.pipeline.execution.stage_keys import stage_key
from clozeline.pipeline.execution.stage_order import stage_of
from clozeline.pipeline.recipe import Recipe


@pytest.mark.parametrize(
    ("name", "key", "value", "changes"),
    [
        ("dedup", "seed", 2, True),
        ("dedup", "heldout", {"fraction": 0.5}, False),
        ("dedup", "corpus", "d", False),
        ("dedup", "dedup", {"near": None}, True),
        ("dedup", "executor", {"tasks": 9}, False),
        ("train_tokenizer", "heldout", {"fraction": 0.5}, True),
        ("train_tokenizer", "dedup", None, False),
    ],
)
def test_the_key_of_a_stage_holds_what_decides_its_bytes_and_nothing_else(name, key, value, changes):
    plain = {"corpus": "c", "output": "out", "clean": {}, "dedup": {}, "train_tokenizer": {}}
    keys = [stage_key(stage_of(validate(Recipe, data, "test"), name), "up") for data in (plain, {**plain, key: value})]
    assert (keys[0] != keys[1]) == changes
