"""Trainable parameters of published sizes: the formulas of the papers, and what transformers and peft count."""

import pytest
import torch
from pydantic import TypeAdapter

from clozeline.model.build import Model
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.sizes import read_size
from tests.model.adapters.adapted_models import peft

COUNTS = {
    "lora": ({"name": "lora", "rank": 8}, 294_912),
    "houlsby": ({"name": "bottleneck", "width": 64}, 2_379_264),
    "pfeiffer": ({"name": "bottleneck", "width": 48, "after": "feed_forward"}, 894_528),
    "prefix": ({"name": "prefix", "length": 20}, 368_640),
    "prompt": ({"name": "prompt", "length": 20}, 15_360),
}


def on_meta(preset):
    config = TypeAdapter(ModelConfig).validate_python(read_size(preset))
    with torch.device("meta"):
        return Model(config, 30522)


@pytest.fixture(scope="module")
def bert():
    return on_meta("bert_base")


def count(model, given):
    from clozeline.registry import choose, find

    config = choose("clozeline.model.adapters", given)
    with torch.device("meta"):
        adapter = find("clozeline.model.adapters", config.name)(config.options, model.family)
    return sum(parameter.numel() for parameter in adapter.parameters())


@pytest.mark.parametrize("case", COUNTS)
def test_bert_base(bert, case):
    given, expected = COUNTS[case]
    assert count(bert, given) == expected


def test_bitfit_has_a_change_for_every_bias_of_transformers_bert(bert):
    transformers = pytest.importorskip("transformers")
    with torch.device("meta"):
        theirs = transformers.BertModel(transformers.BertConfig(), add_pooling_layer=False)
    biases = {name: parameter.numel() for name, parameter in theirs.named_parameters() if name.endswith("bias")}
    assert count(bert, {"name": "bitfit"}) == sum(biases.values()) == 102_144
    assert sum(biases.values()) / 109_482_240 == pytest.approx(0.0009, abs=1e-4)


def test_grouped_heads_have_narrower_prefixes_and_values():
    llama = on_meta("llama3_2_1b")
    layers, width = 16, 8 * 64
    assert count(llama, {"name": "prefix", "length": 5}) == 2 * layers * 5 * width
    assert count(llama, {"name": "lora", "rank": 4}) == layers * 4 * (2048 + 2048 + 2048 + width)


def test_peft_counts_the_same(bert):
    library = peft()
    with torch.device("meta"):
        wrapped = library.get_peft_model(
            on_meta("bert_base"), library.LoraConfig(r=8, target_modules=["query", "value"])
        )
    assert wrapped.get_nb_trainable_parameters()[0] == COUNTS["lora"][1]
