"""Keys of config.json, lists of layer types, and comparisons of what models compute."""

import doctest
from dataclasses import replace

import pytest

import clozeline.model.checkpoints._conversion.config_keys
from clozeline.configuration.config import flatten
from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import computation, differences
from clozeline.model.checkpoints._conversion.config_keys import (
    FULL,
    SLIDING,
    nested,
    read_activation,
    read_fields,
    read_layer_types,
    read_windows,
    refuse_other_values,
    validate_config,
    write_layer_types,
    write_window,
)
from clozeline.model.configuration.layer import DropoutConfig, InitConfig
from clozeline.model.configuration.position import LocalConfig, PositionConfig
from tests.model.small_models import small_config


def test_missing_keys_are_all_named():
    with pytest.raises(ConfigurationError, match="expected the keys b, c"):
        read_fields("x", {"a": 1}, {"one": "a", "two": "b", "three": "c", "four": "d"}, {"d": 4})
    found = read_fields("x", {"a": 1}, {"one": "a", "two": "a", "four": "d"}, {"d": 4})
    assert found == {"one": 1, "two": 1, "four": 4}


def test_activations_have_counterparts():
    names = {"gelu": "gelu", "gelu_new": "gelu_tanh"}
    assert read_activation("x", "gelu_new", "act", names) == "gelu_tanh"
    with pytest.raises(ConfigurationError, match="act: expected one of gelu, gelu_new, got None"):
        read_activation("x", None, "act", names)


def test_other_computations_are_refused():
    refuse_other_values("x", {"a": 2}, {"a": (1, 2), "b": (False,)})
    with pytest.raises(ConfigurationError, match="a: expected 1, got 3; b: expected False, got True"):
        refuse_other_values("x", {"a": 3, "b": True}, {"a": (1, 2), "b": (False,)})


def test_a_wrong_value_is_named():
    with pytest.raises(ConfigurationError, match="type x: layers: Field required"):
        validate_config("x", {"family": "encoder", "dim": 4})


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


def test_examples_in_docstrings():
    assert doctest.testmod(clozeline.model.checkpoints._conversion.config_keys).failed == 0


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
