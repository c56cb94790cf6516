from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from clozeline.configuration.config import to_plain, validate
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.head import HeadConfig
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.shards import Manifest
from clozeline.train.configuration.model_source import with_source
from clozeline.train.data.sets.model_fit import with_answers
from tests.pipeline.task_files import make_sets, open_split
from tests.shard_sets import rows, write_set
from tests.train.synthetic import tiny


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return open_split(make_sets(tmp_path_factory.mktemp("task")), "train").manifest


def model(**heads: HeadConfig) -> ModelConfig:
    return replace(tiny().model, heads=heads)


def changed(manifest: Manifest, **facts: Any) -> Manifest:
    """The same set as that of another task."""
    assert manifest.objective is not None
    options = {**manifest.objective.options, "task": {**manifest.objective.options["task"], **facts}}
    return manifest.model_copy(update={"objective": manifest.objective.model_copy(update={"options": options})})


def test_classes_come_from_the_set(manifest: Manifest) -> None:
    answered = with_answers(model(classification=HeadConfig(hidden="tanh")), [("data.shards", manifest)])
    assert answered.heads["classification"] == HeadConfig(hidden="tanh", labels=("0", "1"))
    again = with_answers(answered, [("data.shards", manifest), ("data.heldout", manifest)])
    assert again == answered


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (HeadConfig(classes=3), r"model\.heads\.classification\.classes: SET has 2: 0, 1; got 3"),
        (HeadConfig(labels=("1", "0")), r"labels: expected 0, 1 in this order, as SET has, got 1, 0"),
        (HeadConfig(labels=("a", "b", "c")), "labels: expected 0, 1 in this order"),
    ],
    ids=["number", "order", "names"],
)
def test_other_classes_are_refused(manifest: Manifest, head: HeadConfig, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        with_answers(model(classification=head), [("SET", manifest)])


def test_sets_of_two_tasks_are_refused(manifest: Manifest) -> None:
    other = changed(manifest, labels=["entailment", "not_entailment"])
    with pytest.raises(ConfigurationError, match="as DEV has, got 0, 1"):
        with_answers(model(classification=HeadConfig()), [("TRAIN", manifest), ("DEV", other)])


def test_the_range_of_numbers_comes_from_the_set(manifest: Manifest) -> None:
    numbers = changed(manifest, head="regression", labels=[], low=0.0, high=5.0)
    for given, range_ in (
        (HeadConfig(output="sigmoid"), (0.0, 5.0)),
        (HeadConfig(output="sigmoid", range=(1.0, 4.0)), (1.0, 4.0)),
        (HeadConfig(), (0.0, 1.0)),
    ):
        assert with_answers(model(regression=given), [("SET", numbers)]).heads["regression"].range == range_


def test_other_sets_and_heads_are_left_alone(tmp_path: Path, manifest: Manifest) -> None:
    masked = model(masked_lm=HeadConfig())
    assert with_answers(masked, [("SET", manifest)]) is masked
    assert with_answers(masked, [("SET", write_set(tmp_path, [rows([1, 2])]).manifest)]) is masked


def test_the_number_from_which_texts_are_alike(manifest: Manifest) -> None:
    apart = changed(manifest, head="similarity", labels=[], alike=4.0)
    answered = with_answers(model(similarity=HeadConfig(pool="mean")), [("data.shards", apart)])
    assert answered.heads["similarity"] == HeadConfig(pool="mean", alike=4.0)


def test_several_classes_come_from_the_set(manifest: Manifest) -> None:
    several = changed(manifest, multi_label=True)
    answered = with_answers(model(classification=HeadConfig()), [("data.shards", several)])
    assert answered.heads["classification"] == HeadConfig(labels=("0", "1"), multi_label=True)


def test_scored_pairs_without_a_threshold_are_for_a_head_without_negatives(manifest: Manifest) -> None:
    scored = changed(manifest, head="similarity", alike=None, labels=[], low=0.0, high=5.0)
    answered = with_answers(model(similarity=HeadConfig(negatives="none")), [("SET", scored)])
    assert (answered.heads["similarity"].range, answered.heads["similarity"].alike) == ((0.0, 5.0), None)
    with pytest.raises(ConfigurationError, match=r"similarity\.negatives: SET also holds pairs with a low score"):
        with_answers(model(similarity=HeadConfig()), [("SET", scored)])


@pytest.mark.parametrize(
    ("theirs", "key", "way_out"),
    [
        ({"labels": ["b", "a", "c"]}, "labels", []),
        ({"labels": ["1", "0"]}, "labels", []),
        ({"classes": 3}, "classes", None),
    ],
    ids=["names", "order", "number"],
)
def test_a_key_that_the_first_model_brings_is_named_so(
    tmp_path: Path, manifest: Manifest, theirs: dict[str, Any], key: str, way_out: Any
) -> None:
    """It cannot be left out; what the message says to set is accepted."""
    plain = to_plain(model(classification=HeadConfig()))
    plain["heads"]["classification"] = theirs
    (tmp_path / "config.yaml").write_text(OmegaConf.to_yaml({"model": plain}), encoding="utf-8")
    given = {"init_from": str(tmp_path)}
    with pytest.raises(ConfigurationError) as refused:
        with_answers(validate(ModelConfig, with_source(given), "model"), [("SET", manifest)])
    key = f"model.heads.classification.{key}"
    assert f"set {key}={json.dumps(way_out)} for a new head (model.init_from brings the key)" in str(refused.value)
    plain = with_source(given)
    plain["heads"]["classification"][key.rpartition(".")[2]] = way_out
    answered = with_answers(validate(ModelConfig, plain, "model"), [("SET", manifest)])
    assert answered.heads["classification"].labels == ("0", "1")
    # a key that the user wrote over it is left out
    plain["heads"]["classification"] = {"labels": ["x", "y"]}
    with pytest.raises(ConfigurationError, match="leave the key out"):
        with_answers(validate(ModelConfig, plain, "model"), [("SET", manifest)])
