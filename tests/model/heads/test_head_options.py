"""Keys of heads: each is declared by the head that reads it, also by one of another package."""

import json

import pytest

from clozeline.configuration.config import to_data, validate
from clozeline.errors import ConfigurationError
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


def config_with(heads):
    return validate(ModelConfig, {**BODY, "heads": heads}, "", "model.")


@contract(HEADS)
def test_the_options_of_a_head_are_stored_and_read_again(name):
    config = config_with({name: {"weight": 2.0, **head_keys(name)}})
    assert isinstance(config.heads[name], HEADS.load_class(name).Options)
    stored = json.loads(json.dumps(to_data(config)))
    assert validate(ModelConfig, stored, "") == config


@pytest.mark.parametrize(
    ("heads", "words"),
    [
        (
            {"classification": {"lables": ["a"]}},
            ["classification.lables'", "classification.labels"],
        ),
        ({"lm": {"multi_label": True}}, ["model.heads.lm.multi_label", "classification"]),
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
