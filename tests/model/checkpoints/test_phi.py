from dataclasses import replace

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, map_for, read_checkpoint
from tests.model.checkpoints.published import difference, edit_config, saved


def options(draw, found):
    """Six heads of eight components with shared keys and values; four or six components are rotated."""
    share, base = draw.choice([0.5, 0.75]), draw.choice([77.0, 777.0])
    return {
        "hidden_size": 48,
        "num_attention_heads": 6,
        "num_key_value_heads": draw.choice([3, 6]),
        "layer_norm_eps": 3e-4,
        "qk_layernorm": draw.choice([True, False]),
        "rope_parameters": {"rope_type": "default", "rope_theta": base, "partial_rotary_factor": share},
    }


@pytest.mark.parametrize("normed", [True, False])
def test_the_keys_of_the_type(tmp_path, normed):
    theirs = saved(tmp_path, "phi", qk_layernorm=normed)
    checkpoint = read_checkpoint(tmp_path)
    config = checkpoint.config
    assert (config.parallel, config.qk_norm) == ("one_norm", "head" if normed else None)
    assert config.heads["lm"].projection == "biased"
    assert not any("feed_forward.norm" in name for name in checkpoint.tensors)
    assert map_for(config, checkpoint.token_ids).model_type == "phi"
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


def test_half_of_each_head_is_rotated_if_no_key_says_so(tmp_path):
    """Published files have the keys of the rotation at the top."""
    form = {"rope_type": "default", "rope_theta": 77.0, "partial_rotary_factor": 0.5}
    theirs = saved(tmp_path, "phi", rope_parameters=form)
    edit_config(tmp_path, rope_parameters=None, rope_theta=77.0)
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.config.rotated_width == 4
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    assert export_checkpoint(checkpoint).config["partial_rotary_factor"] == 0.5


WRONG = {
    "two norms": {"parallel": "two_norms"},
    "sequential": {"parallel": None},
    "whole": {"position": {"partial_rotary_factor": 1.0}},
    "activation": {"activation": "gelu"},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
def test_a_wrong_rule_is_seen(tmp_path, changes):
    theirs = saved(tmp_path, "phi", num_hidden_layers=3, hidden_act="gelu_new")
    checkpoint = read_checkpoint(tmp_path)
    if "position" in changes:
        changes = {"position": replace(checkpoint.config.position, **changes["position"])}
    tensors = dict(checkpoint.tensors)
    if "parallel" in changes:  # a norm of the feed-forward block that does nothing but normalize
        for layer in range(3):
            at = f"family.stack.layers.{layer}.feed_forward.norm"
            tensors |= {f"{at}.weight": torch.ones(48), f"{at}.bias": torch.zeros(48)}
    wrong = replace(checkpoint, config=replace(checkpoint.config, **changes), tensors=tensors)
    assert difference(build_checkpoint(wrong), theirs) > (2e-5 if "activation" in changes else 1e-2)


def test_the_bias_of_the_head_is_seen(tmp_path):
    theirs = saved(tmp_path, "phi")
    checkpoint = read_checkpoint(tmp_path)
    name = "heads.lm.projection.bias"
    unbiased = {**checkpoint.tensors, name: torch.zeros_like(checkpoint.tensors[name])}
    assert difference(build_checkpoint(replace(checkpoint, tensors=unbiased)), theirs) > 1e-2
    head = replace(checkpoint.config.heads["lm"], projection="linear")
    with pytest.raises(ConfigurationError, match="projection: expected biased in a model of type phi, got linear"):
        export_checkpoint(replace(
            checkpoint, config=replace(checkpoint.config, heads={"lm": head}),
            tensors={key: value for key, value in checkpoint.tensors.items() if key != name},
        ))  # fmt: skip
