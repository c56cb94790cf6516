import pytest
from pydantic import TypeAdapter, ValidationError

from clozeline.model.adapters.lora import Lora
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.registries import ADAPTERS

PLAIN = {
    "family": "encoder",
    "dim": 8,
    "layers": 1,
    "attention_heads": 2,
    "ffn_dim": 8,
    "heads": {"masked_lm": 1.0},
}


def validate_config(adapter):
    return TypeAdapter(ModelConfig).validate_python(PLAIN | {"adapter": adapter}).adapter


def test_a_word_is_a_name():
    assert validate_config("lora") == validate_config({"name": "lora"}) == ADAPTERS.resolve("lora")
    assert validate_config(None) is None


def test_keys_are_those_of_the_file():
    found = validate_config({"name": "lora", "rank": 4, "targets": ["query"], "alpha": 16})
    assert found.options == Lora.Options(rank=4, targets=("query",), alpha=16.0)
    assert validate_config(found) is found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (4, "expected a name or a mapping with 'name'"),
        ({"name": "lora", "rnk": 4}, "unknown key 'rnk'; did you mean 'rank'"),
        ({"name": "lora", "rank": 0}, "lora: rank: expected at least 1, got 0"),
        ({"name": "bitfit", "rank": 4}, "bitfit: unknown key 'rank'"),
    ],
    ids=["number", "near key", "range", "no keys"],
)
def test_mistakes_are_said(given, message):
    with pytest.raises(ValidationError) as caught:
        validate_config(given)
    assert message in str(caught.value)
