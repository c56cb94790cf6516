"""Keys of heads: each is declared by the head that reads it, also by one of another package."""

import json
import sys

import pytest
import torch

from clozeline import plugins
from clozeline.configuration.config import to_data, validate
from clozeline.errors import ConfigurationError
from clozeline.model.build import build_model
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.registries import HEADS
from tests.contracts import contract
from tests.model.small_models import head_keys

BODY = {"family": "encoder", "dim": 8, "layers": 1, "attention_heads": 2, "ffn_dim": 8}
SOURCE = '''
from clozeline.configuration.config import config_class
from clozeline.model.registries import HEADS

ClassificationHead = HEADS.load_class("classification")


class Focal(ClassificationHead):
    """A head with a key of its own."""

    @config_class
    class Options(ClassificationHead.Options):
        gamma: float = 2.0
        """power of the weight of a row"""
'''


@pytest.fixture
def focal(tmp_path, monkeypatch):
    """The name of a head in a package of somebody else, which the user allowed."""
    (tmp_path / "somebody").mkdir()
    (tmp_path / "somebody" / "heads.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(plugins.VARIABLE, "somebody.heads")
    yield "somebody.heads:Focal"
    for name in ("somebody", "somebody.heads"):
        sys.modules.pop(name, None)


def config_with(heads):
    return validate(ModelConfig, {**BODY, "heads": heads}, "", "model.")


@contract(HEADS)
def test_the_options_of_a_head_are_stored_and_read_again(name):
    config = config_with({name: {"weight": 2.0, **head_keys(name)}})
    assert isinstance(config.heads[name], HEADS.load_class(name).Options)
    stored = json.loads(json.dumps(to_data(config)))
    assert validate(ModelConfig, stored, "") == config


def test_a_head_of_another_package_has_keys_of_its_own(focal):
    config = config_with({focal: {"labels": ["dry", "wet"], "gamma": 3}})

    assert config.heads[focal].gamma == 3.0
    assert to_data(config)["heads"] == {
        focal: {"weight": 1.0, "labels": ["dry", "wet"], "gamma": 3.0}
    }
    assert config.targets == {focal: "classification"}

    model = build_model(config, 9, {"pad": 0}, seed=0)

    assert [*model.heads] == [*dict(model.heads.items())] == [focal]
    assert isinstance(model.heads[focal], HEADS.load_class("classification"))

    names = {name for name, _ in model.named_parameters() if name.startswith("heads.")}

    assert names == {
        f"heads.somebody-heads:Focal.classifier.out.{part}" for part in ("weight", "bias")
    }

    again = build_model(config, 9, {"pad": 0}, seed=1)
    again.load_state_dict(model.state_dict())
    pairs = zip(again.parameters(), model.parameters(), strict=True)

    assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize(
    ("heads", "words"),
    [
        (
            {"classification": {"lables": ["a"]}},
            ["classification.lables'", "classification.labels"],
        ),
        ({"lm": {"multi_label": True}}, ["model.heads.lm.multi_label", "classification"]),
        ({"sentence": {"group_size": 4}}, ["model.heads.sentence.group_size", "similarity"]),
        ({"classification": {"gama": 1.0}}, ["'model.heads.classification.gama'"]),
        ({"maskd_lm": 1.0}, ["model.heads", "masked_lm"]),
        ({"lm": "much"}, ["model.heads.lm", "much"]),
        ({"lm": {"weight": -1}}, ["model.heads.lm.weight", "-1"]),
        ({"regression": {"range": [1, 5]}}, ["model.heads.regression", "range", "sigmoid"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_key_is_refused_by_its_head(heads, words):
    """The message names the key with its head, and the nearest one or the head that has it."""
    with pytest.raises(ConfigurationError) as refused:
        config_with(heads)
    assert [word for word in words if word not in str(refused.value)] == []


def test_a_key_of_another_package_is_refused_by_its_name(focal):
    with pytest.raises(
        ConfigurationError, match=r"model\.heads\.somebody\.heads:Focal\.gama.*gamma"
    ):
        config_with({focal: {"classes": 2, "gama": 1.0}})
