"""Which layers have a window, by a number or by a list."""

import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from tests.model.checkpoints.published import LAYER_TYPES, difference, edit_config, odd_llama, saved


def options(draw, found):
    sizes = odd_llama(draw)
    del sizes["head_dim"]
    windows = draw.choice([{"layer_types": LAYER_TYPES}, {"max_window_layers": 2}])
    return sizes | {"hidden_size": 36, "use_sliding_window": True, "sliding_window": draw.choice([3, 4])} | windows


def test_the_first_layers_see_the_entire_row(tmp_path):
    theirs = saved(tmp_path, "qwen2", use_sliding_window=True, sliding_window=3, max_window_layers=2, layer_types=None)
    edit_config(tmp_path, layer_types=None)
    checkpoint = read_checkpoint(tmp_path)
    assert [checkpoint.config.is_local(layer) for layer in range(5)] == [False, False, True, True, True]
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    keys = ("use_sliding_window", "sliding_window", "max_window_layers", "layer_types")
    assert [export_checkpoint(checkpoint).config[key] for key in keys] == [True, 3, 2, theirs.config.layer_types]


def test_the_list_takes_precedence_over_the_number(tmp_path):
    theirs = saved(tmp_path, "qwen2", sliding_window=3, layer_types=LAYER_TYPES)
    edit_config(tmp_path, max_window_layers=0)
    model = build_checkpoint(read_checkpoint(tmp_path))
    assert difference(model, theirs) < 1e-5
    edit_config(tmp_path, layer_types=None)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) > 1e-2


def test_without_the_switch_the_other_keys_mean_nothing(tmp_path):
    theirs = saved(tmp_path, "qwen2", use_sliding_window=False, layer_types=None, max_window_layers=1)
    edit_config(tmp_path, sliding_window=2)
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.config.local is None
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


def test_a_width_of_heads_in_the_file_is_used(tmp_path):
    theirs = saved(tmp_path, "qwen2", head_dim=10)
    assert read_checkpoint(tmp_path).config.head_width == 10
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"layer_types": ["full_attention"]}, "layer_types: expected a type for each of num_hidden_layers 5, got 1"),
        ({"layer_types": ["chunked_attention"] * 5}, "layer_types: expected full_attention or sliding_attention"),
        ({"layer_types": LAYER_TYPES, "use_sliding_window": False}, "sliding_window: sliding_attention needs a window"),
    ],
    ids=["length", "type", "no window"],
)
def test_lists_that_contradict_are_refused(tmp_path, keys, words):
    saved(tmp_path, "qwen2")
    edit_config(tmp_path, **keys)
    with pytest.raises(ConfigurationError, match=words):
        read_checkpoint(tmp_path)
