"""Caps, the factor of the scores, and the windows of even layers."""

from dataclasses import replace

import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, map_for, read_checkpoint
from tests.model.checkpoints.published import LAYER_TYPES, difference, edit_config, export_to, loaded, odd_llama, saved


def options(draw, found):
    return odd_llama(draw) | {
        "attention_bias": draw.choice([True, False]),
        "query_pre_attn_scalar": 7,
        "sliding_window": draw.choice([3, 4]),
        "layer_types": LAYER_TYPES,
        "attn_logit_softcapping": 1.5,
        "final_logit_softcapping": 2.0,
    }


WRONG = {
    "no cap of attention": {"attn_logit_softcapping": 1e6},
    "no cap of logits": {"final_logit_softcapping": 1e6},
    "scale of the width": {"query_pre_attn_scalar": 10},
    "other layers": {"layer_types": [LAYER_TYPES[2], *LAYER_TYPES[:4]]},
    "window": {"sliding_window": 5},
    "gelu by erf": {"hidden_activation": "gelu"},
}


@pytest.mark.parametrize("keys", WRONG.values(), ids=WRONG)
def test_a_wrong_key_is_seen(tmp_path, keys):
    theirs = saved(tmp_path, "gemma2", hidden_activation="gelu_pytorch_tanh")
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5
    edit_config(tmp_path, **keys)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) > 1e-4


@pytest.mark.parametrize("case", ["gemma2", "gemma3_text"])
def test_a_model_without_a_window_runs_after_an_export(tmp_path, case):
    """The class reads a window at its first call, even if no layer has one."""
    theirs = saved(tmp_path / "in", case, layer_types=["full_attention"] * 5)
    export = export_checkpoint(read_checkpoint(tmp_path / "in"))
    again, report = loaded(export_to(tmp_path / "out", export), export.loader)
    assert report == {}
    assert difference(build_checkpoint(read_checkpoint(tmp_path / "in")), again) < 1e-5
    assert read_checkpoint(tmp_path / "out").config == read_checkpoint(tmp_path / "in").config
    assert type(again) is type(theirs)


def test_no_caps_and_null_are_one(tmp_path):
    theirs = saved(tmp_path, "gemma2", attn_logit_softcapping=None, final_logit_softcapping=None)
    checkpoint = read_checkpoint(tmp_path)
    assert (checkpoint.config.attn_logit_softcapping, checkpoint.config.final_logit_softcapping) == (None, None)
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


def test_absent_keys_are_those_of_the_class(tmp_path):
    saved(tmp_path, "gemma2", layer_types=None)
    keys = ("layer_types", "sliding_window", "attn_logit_softcapping", "final_logit_softcapping", "hidden_activation")
    edit_config(tmp_path, **dict.fromkeys((*keys, "query_pre_attn_scalar")))
    config = read_checkpoint(tmp_path).config
    assert [config.is_local(layer) for layer in range(5)] == [True, False, True, False, True]
    assert (config.local.window, config.attn_logit_softcapping, config.final_logit_softcapping) == (4095, 50.0, 30.0)
    assert (config.activation, config.qk_scale) == ("gelu_tanh", 256**-0.5)


def test_a_factor_that_is_no_root_of_a_whole_number_has_no_type(tmp_path):
    saved(tmp_path, "gemma2")
    checkpoint = read_checkpoint(tmp_path)
    assert export_checkpoint(checkpoint).config["query_pre_attn_scalar"] == 7
    with pytest.raises(ConfigurationError, match="gemma2, the nearest, differs: qk_scale: expected"):
        map_for(replace(checkpoint.config, qk_scale=0.3), {}, "gemma2")


@pytest.mark.parametrize("scalar", [0, "many"])
def test_factors_that_are_no_numbers_are_refused(tmp_path, scalar):
    saved(tmp_path, "gemma2")
    edit_config(tmp_path, query_pre_attn_scalar=scalar)
    with pytest.raises(ConfigurationError, match="query_pre_attn_scalar: expected a number above 0"):
        read_checkpoint(tmp_path)
