"""Comparisons of what models compute."""

from dataclasses import replace

import pytest

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.computed_keys import computation_keys, differences
from clozeline.model.configuration.head import VocabularyOptions
from clozeline.model.configuration.layer import DropoutConfig, InitConfig
from clozeline.model.configuration.position import LocalConfig, PositionConfig
from tests.model.small_models import small_config


def test_training_does_not_count():
    config = small_config("encoder")
    other = replace(
        config,
        dropout=DropoutConfig(hidden=0.5),
        init=InitConfig(std=0.5),
        heads={"lm": 2.0},
        vocab_multiple=64,
    )

    assert differences(config, other) == {}


@config_class
class GainedInit(InitConfig):
    gain: float = 1.0


@config_class
class ScaledOptions(VocabularyOptions):
    scale: float = 1.0


def test_a_new_key_counts_unless_it_says_that_it_is_of_training():
    """Also one below `init`, where all keys were of training, and one of a head."""
    gained, usual = (
        replace(small_config("encoder"), init=GainedInit(gain=gain)) for gain in (2.0, 1.0)
    )
    scaled = ScaledOptions(scale=3.0, weight=2.0, label_chunk=4)

    assert differences(gained, usual) == {"init.gain": (2.0, 1.0)}
    assert scaled.differences(ScaledOptions(), "encoder") == {"scale": (3.0, 1.0)}


def test_every_switch_counts_and_defaults_written_out_are_the_defaults():
    """Keys of another kind of positions do not count."""
    config = small_config("encoder")
    rope = small_config("decoder")
    written = replace(config, head_dim=6, kv_heads=4, emb_dim=24, qk_scale=6**-0.5)

    assert computation_keys(config) == computation_keys(written)
    assert differences(config, replace(config, eps=1e-6)) == {"eps": (1e-5, 1e-6)}
    assert differences(config, replace(config, position=PositionConfig(offset=2))) == {
        "position.offset": (0, 2)
    }
    assert differences(rope, replace(rope, position=PositionConfig(kind="rope", maximum=9))) == {}


def test_layers_with_a_window_have_two_spellings_and_others_are_refused():
    from clozeline.extensions.published.conversion.config_keys import read_layer_types

    config = small_config("decoder", layers=3)
    kinds = ("full_attention", "sliding_attention", "full_attention")
    period = LocalConfig(window=2, global_every=2)
    listed = LocalConfig(window=2, layer_types=kinds)

    assert differences(replace(config, local=period), replace(config, local=listed)) == {}
    assert differences(config, replace(config, local=LocalConfig(window=2, global_every=1))) == {}

    other = replace(config, local=LocalConfig(window=2, layer_types=kinds[::-1][1:] + kinds[:1]))

    assert differences(replace(config, local=period), other).keys() == {"local.layer_types"}

    with pytest.raises(
        ConfigurationError, match="layer_types: expected full_attention or sliding_attention"
    ):
        read_layer_types(
            "qwen2", {"num_hidden_layers": 1, "layer_types": ["chunked_attention"]}, bool
        )
