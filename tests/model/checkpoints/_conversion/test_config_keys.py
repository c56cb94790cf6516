"""Keys of config.json, lists of layer types, and comparisons of what models compute."""

from dataclasses import replace

import pytest

from clozeline.configuration.config import flatten
from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import computation, differences, map_of_type
from clozeline.model.checkpoints._conversion.config_keys import (
    FULL,
    SLIDING,
    nested,
    read_layer_types,
    read_windows,
    write_layer_types,
    write_window,
)
from clozeline.model.configuration.layer import DropoutConfig, InitConfig
from clozeline.model.configuration.position import LocalConfig, PositionConfig
from tests.model.small_models import small_config

SIZES = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 20}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"hidden_size": None, "num_hidden_layers": None},
            "type bert: expected the keys hidden_size, num_hidden_layers,",
        ),
        ({"hidden_act": "mish"}, "type bert: hidden_act: expected one of gelu, gelu_new, .*, got 'mish'"),
        ({"is_decoder": 1, "add_cross_attention": True}, "add_cross_attention: expected False, got True"),
        ({"num_hidden_layers": -1}, "type bert: layers: Input should be greater than or equal to 1"),
    ],
    ids=["missing", "activation", "computation", "range"],
)
def test_wrong_keys_are_named(changes, message):
    plain = {
        key: value for key, value in (SIZES | {"max_position_embeddings": 8} | changes).items() if value is not None
    }
    with pytest.raises(ConfigurationError, match=message):
        map_of_type("bert").read_config(plain, {})


def test_the_list_takes_precedence_over_the_usual_layers():
    listed = [SLIDING, FULL, FULL]
    plain = {"num_hidden_layers": 3}
    assert read_layer_types("qwen2", plain, lambda layer: layer == 1) == [FULL, SLIDING, FULL]
    assert read_layer_types("qwen2", plain | {"layer_types": listed}, lambda layer: True) == listed


def test_no_local_layer_needs_no_window():
    assert read_windows("qwen2", [FULL, FULL], None) == {}


@pytest.mark.parametrize("local", [{"global_every": 2}, {"layer_types": (FULL, SLIDING, FULL)}], ids=list)
def test_layers_and_window_are_written(local):
    config = small_config("decoder", layers=3, local={"window": 4, **local})
    assert (write_layer_types(config), write_window(config)) == ([FULL, SLIDING, FULL], 5)
    assert write_window(small_config("decoder")) is None
    assert write_window(small_config("decoder", local={"window": 4, "global_every": 1})) is None


def test_training_does_not_count():
    config = small_config("encoder")
    other = replace(
        config, dropout=DropoutConfig(hidden=0.5), init=InitConfig(std=0.5), heads={"lm": 2.0}, vocab_multiple=64
    )
    assert differences(config, other) == {}


def test_defaults_written_out_are_the_defaults():
    config = small_config("encoder")
    written = replace(config, head_dim=6, kv_heads=4, emb_dim=24, qk_scale=6**-0.5)
    assert computation(config) == computation(written)


def test_every_switch_counts():
    config = small_config("encoder")
    assert differences(config, replace(config, eps=1e-6)) == {"eps": (1e-5, 1e-6)}
    assert differences(config, replace(config, position=PositionConfig(offset=2))) == {"position.offset": (0, 2)}


def test_keys_of_other_kinds_of_places_do_not_count():
    rope = small_config("decoder")
    assert differences(rope, replace(rope, position=PositionConfig(kind="rope", maximum=9))) == {}


def test_layers_with_a_window_have_two_spellings():
    config = small_config("decoder", layers=3)
    kinds = ("full_attention", "sliding_attention", "full_attention")
    period, listed = LocalConfig(window=2, global_every=2), LocalConfig(window=2, layer_types=kinds)
    assert differences(replace(config, local=period), replace(config, local=listed)) == {}
    assert differences(config, replace(config, local=LocalConfig(window=2, global_every=1))) == {}
    other = replace(config, local=LocalConfig(window=2, layer_types=kinds[::-1][1:] + kinds[:1]))
    assert differences(replace(config, local=period), other).keys() == {"local.layer_types"}


def test_dotted_keys():
    plain = {"a": {"b": {"c": 1}}, "d": 2}
    assert flatten(plain) == {"a.b.c": 1, "d": 2}
    assert nested(flatten(plain)) == plain
