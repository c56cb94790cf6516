from dataclasses import replace

import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, map_for, read_checkpoint
from tests.model.checkpoints.published import difference, edit_config, saved

FORMS = {
    "pre": ({}, ("pre", True)),
    "post": ({"do_layer_norm_before": False}, ("post", False)),
    "no final norm": ({"_remove_final_layer_norm": True}, ("pre", False)),
}


def options(draw, found):
    return {"word_embed_proj_dim": found["hidden_size"], **draw.choice([keys for keys, _ in FORMS.values()])}


def plain(folder, **changes):
    usual = {"do_layer_norm_before": True, "_remove_final_layer_norm": False}
    return saved(folder, "opt", **(usual | changes))


@pytest.mark.parametrize(("keys", "norms"), FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("biases", [True, False])
def test_places_of_norms_and_biases(tmp_path, keys, norms, biases):
    theirs = plain(tmp_path, enable_bias=biases, **keys)
    checkpoint = read_checkpoint(tmp_path)
    config = checkpoint.config
    assert (config.norm_place, config.final_norm, config.position.offset) == (*norms, 2)
    assert map_for(config, checkpoint.token_ids).model_type == "opt"
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


@pytest.mark.parametrize("changes", [{"eps": 1e-2}, {"norm_place": "post"}, {"activation": "gelu"}], ids=str)
def test_a_wrong_rule_is_seen(tmp_path, changes):
    theirs = plain(tmp_path, activation_function="relu")
    checkpoint = read_checkpoint(tmp_path)
    wrong = replace(checkpoint, config=replace(checkpoint.config, **changes))
    assert difference(build_checkpoint(wrong), theirs) > 1e-3


def test_positions_begin_in_the_third_row(tmp_path):
    theirs = plain(tmp_path)
    checkpoint = read_checkpoint(tmp_path)
    position = replace(checkpoint.config.position, offset=0, maximum=22)
    wrong = replace(checkpoint, config=replace(checkpoint.config, position=position))
    assert difference(build_checkpoint(wrong), theirs) > 1e-2


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"word_embed_proj_dim": 3}, r"word_embed_proj_dim: expected hidden_size \d+, got 3: positions that are added"),
        ({"layer_norm_elementwise_affine": False}, "layer_norm_elementwise_affine: expected True, got False"),
    ],
    ids=["350m", "no gains"],
)
def test_what_is_not_built_is_refused(tmp_path, keys, words):
    plain(tmp_path)
    edit_config(tmp_path, **keys)
    with pytest.raises(ConfigurationError, match=words):
        read_checkpoint(tmp_path)
