from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clozeline.configuration.config import to_plain, validate
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.sizes import read_size
from clozeline.train.configuration.config import frozen, with_absolute_paths
from tests.train.synthetic import tiny

TEACHER: dict[str, Any] = {"teacher": "runs/teacher"}


def test_scores_are_the_default_and_paths_become_absolute() -> None:
    config = tiny(distil={**TEACHER, "start": {"layers": [0, 1], "source": "runs/other"}})
    assert [loss.name for loss in config.distil.losses] == ["scores"]  # type: ignore[union-attr]
    moved = with_absolute_paths(config).distil
    assert moved is not None
    assert (moved.teacher, moved.start_from) == (Path.cwd() / "runs/teacher", Path.cwd() / "runs/other")
    assert tiny(distil={**TEACHER, "start": {"layers": [0, 1]}}).distil.start_from == Path("runs/teacher")  # type: ignore[union-attr]


def test_a_configuration_is_read_again_as_it_was_written() -> None:
    config = tiny(distil={**TEACHER, "losses": [{"name": "states", "layers": {1: 2, 0: 0}}, "attention"]})
    again = validate(type(config), to_plain(config), "again")
    assert again == config
    assert frozen(again) == frozen(config)
    assert frozen(config)["distil.losses"][0]["layers"] == {"1": 2, "0": 0}
    assert not {"distil.teacher", "distil.start"} & frozen(config).keys()


def test_without_a_teacher_in_memory_only_stored_scores_are_left() -> None:
    distil = tiny(distil={"losses": ["cosine", "scores"], "start": {"layers": [0, 2]}}).distil
    assert distil is not None
    assert [loss.name for loss in distil.active] == ["scores"]
    assert distil.start_from is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"distil": {**TEACHER, "losses": ["scores", "scores"]}},
            "losses: expected one or more, each once, got scores, scores",
        ),
        ({"distil": {**TEACHER, "losses": []}}, "losses: expected one or more, each once, got none"),
        (
            {"distil": {**TEACHER, "losses": ["score"]}},
            "no 'score' in train/compression/distillation/losses; did you mean 'scores'",
        ),
        ({"distil": {**TEACHER, "losses": [{"name": "scores", "temperature": 0}]}}, "temperature"),
        (
            {"distil": TEACHER, "model__adapter": "lora", "model__init_from": "x"},
            "distil: expected a model that is trained entirely",
        ),
        (
            {"distil": {**TEACHER, "start": {"layers": [0, 1]}}, "model__init_from": "x"},
            "distil.start: model.init_from gives",
        ),
        ({"distil": {**TEACHER, "losses": ["relations"]}, "compile": True}, "compile: distil's loss relations reads"),
        ({"distil": TEACHER, "compile": True, "data__label_capacity": 8}, "data.label_capacity: distil's loss scores"),
    ],
)
def test_refusals(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        tiny(**changes)


@pytest.mark.parametrize("size", ["electra_small", "elmo", "awd_lstm"])
def test_families_that_cannot_be_students(size: str) -> None:
    found = validate(ModelConfig, read_size(size), size)
    distil = tiny(distil=TEACHER).distil
    assert distil is not None
    with pytest.raises(ValueError, match=f"distil: expected another family than .*, got {found.family}: remove it"):
        distil.check(found, compiled=False, label_capacity=None, steps=1)
