"""Windows of every layer, as config.json of all times says them."""

import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from tests.model.checkpoints.published import difference, edit_config, odd_llama, saved


def options(draw, found):
    return odd_llama(draw) | {"sliding_window": draw.choice([3, 4, 5])}


@pytest.mark.parametrize("window", [1, 4])
def test_a_window_counts_the_token_itself(tmp_path, window):
    theirs = saved(tmp_path, "mistral", sliding_window=window)
    checkpoint = read_checkpoint(tmp_path)
    assert (checkpoint.config.local.window, checkpoint.config.local.is_local(0)) == (window - 1, True)
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    edit_config(tmp_path, sliding_window=window + 1)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) > 1e-2


def test_an_absent_key_is_a_window_and_null_is_none(tmp_path):
    saved(tmp_path, "mistral", sliding_window=None)
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.config.local is None
    assert export_checkpoint(checkpoint).config["sliding_window"] is None
    edit_config(tmp_path, sliding_window=None)
    assert read_checkpoint(tmp_path).config.local.window == 4095


def test_a_list_of_layers_means_nothing(tmp_path):
    theirs = saved(tmp_path, "mistral", sliding_window=3)
    edit_config(tmp_path, layer_types=["full_attention"] * 5)
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.notes == ()
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


@pytest.mark.parametrize("window", [0, "many"])
def test_windows_without_a_token_are_refused(tmp_path, window):
    saved(tmp_path, "mistral")
    edit_config(tmp_path, sliding_window=window)
    with pytest.raises(ConfigurationError, match="mistral: sliding_window: sliding_attention needs a window of 1 or"):
        read_checkpoint(tmp_path)
