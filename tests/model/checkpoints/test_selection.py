from dataclasses import replace

import pytest

from model.checkpoints import map_for, map_of_type
from model.errors import ConfigurationError
from tests.model.small_models import small_config
from tests.model.test_presets import EXPECTED, load

FAMILIES = ("bert", "gpt2", "llama", "t5", "bart")


@pytest.mark.parametrize("name", EXPECTED)
def test_every_preset_has_its_type(name):
    assert map_for(load(name), {}).model_type == next(family for family in FAMILIES if name.startswith(family))


def test_an_encoder_without_types_is_distilbert():
    assert map_for(replace(load("bert_base"), type_vocab_size=0), {}).model_type == "distilbert"


def test_no_type_fits():
    with pytest.raises(ConfigurationError, match=r"bert, the nearest, differs: norm_place: expected post, got pre"):
        map_for(replace(load("bert_base"), norm_place="pre"), {})
    with pytest.raises(ConfigurationError, match="gpt2, the nearest, differs: family"):
        map_for(load("bert_base"), {}, "gpt2")


def test_an_unknown_type():
    with pytest.raises(ConfigurationError, match="expected one of bart, bert, distilbert"):
        map_of_type("xlnet")
    assert map_of_type("openai-gpt").headed == "OpenAIGPTLMHeadModel"


def test_small_models_that_are_no_published_type():
    with pytest.raises(ConfigurationError, match="no model type of transformers"):
        map_for(small_config("encoder", emb_dim=8), {})
