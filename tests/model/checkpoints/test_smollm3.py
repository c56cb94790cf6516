"""Layers that do not rotate, by a list or by their distance, and windows."""

import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from tests.model.checkpoints.published import LAYER_TYPES, difference, edit_config, odd_llama, saved


def options(draw, found):
    sizes = odd_llama(draw) | {"hidden_size": 36}
    windows = draw.choice([{}, {"use_sliding_window": True, "sliding_window": 3, "layer_types": LAYER_TYPES}])
    return sizes | {"no_rope_layers": draw.choice([None, [0, 1, 0, 1, 1]])} | windows


@pytest.mark.parametrize("keys", [{}, {"no_rope_layer_interval": 2}, {"no_rope_layers": [1, 0, 0, 1, 1, 7]}])
def test_a_zero_is_a_layer_without_rotation(tmp_path, keys):
    theirs = saved(tmp_path, "smollm3", **{"no_rope_layers": None} | keys)
    edit_config(tmp_path, **keys, **({} if "no_rope_layers" in keys else {"no_rope_layers": None}))
    checkpoint = read_checkpoint(tmp_path)
    rotated = theirs.config.no_rope_layers
    assert checkpoint.config.position.nope_layers == tuple(layer for layer in range(5) if not rotated[layer])
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    assert export_checkpoint(checkpoint).config["no_rope_layers"] == [int(bool(number)) for number in rotated[:5]]
    edit_config(tmp_path, no_rope_layers=[1] * 5)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) > 1e-3


def test_with_a_window_layers_without_rotation_are_local(tmp_path):
    theirs = saved(
        tmp_path, "smollm3", use_sliding_window=True, sliding_window=3, layer_types=None, no_rope_layers=None
    )
    edit_config(tmp_path, layer_types=None)
    checkpoint = read_checkpoint(tmp_path)
    assert [checkpoint.config.is_local(layer) for layer in range(5)] == [False, False, False, True, False]
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


def test_a_list_that_is_too_short_is_refused(tmp_path):
    saved(tmp_path, "smollm3")
    edit_config(tmp_path, no_rope_layers=[1, 0])
    with pytest.raises(
        ConfigurationError, match=r"no_rope_layers: expected a number for each of 5 layers, got \[1, 0\]"
    ):
        read_checkpoint(tmp_path)
