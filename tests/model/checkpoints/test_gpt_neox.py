from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, map_for, read_checkpoint
from tests.model.checkpoints.published import difference, edit_config, saved


def options(draw, found):
    """Heads of eight components, of which two, six or all are rotated."""
    share, base = draw.choice([0.25, 0.75, 1.0]), draw.choice([77.0, 777.0])
    return {
        "hidden_size": 8 * found["num_attention_heads"],
        "layer_norm_eps": 3e-4,
        "use_parallel_residual": draw.choice([True, False]),
        "rope_parameters": {"rope_type": "default", "rope_theta": base, "partial_rotary_factor": share},
    }


def form(share, base=77.0):
    return {"rope_parameters": {"rope_type": "default", "rope_theta": base, "partial_rotary_factor": share}}


@pytest.mark.parametrize("parallel", [True, False])
def test_the_keys_of_the_type(tmp_path, parallel):
    changes = {"use_parallel_residual": parallel, "tie_word_embeddings": False, **form(0.25)}
    theirs = saved(tmp_path, "gpt_neox", **changes)
    checkpoint = read_checkpoint(tmp_path)
    config = checkpoint.config
    assert (config.parallel, config.position.partial_rotary_factor) == ("two_norms" if parallel else None, 0.25)
    assert config.rotated_width == 2
    assert map_for(config, checkpoint.token_ids).model_type == "gpt_neox"
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    export = export_checkpoint(checkpoint)
    assert (export.config["rotary_pct"], export.config["rotary_emb_base"]) == (0.25, 77.0)
    assert "embed_out.weight" in export.tensors


def test_former_keys_and_names(tmp_path):
    """Published Pythia: the keys of the rotation at the top, buffers of the attention, both names of the head."""
    theirs = saved(tmp_path, "gpt_neox", use_parallel_residual=True, tie_word_embeddings=False, **form(0.25))
    edit_config(tmp_path, rope_parameters=None, rotary_pct=0.25, rotary_emb_base=77.0, use_parallel_residual=None)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    tensors["lm_head.weight"] = tensors.pop("embed_out.weight")
    for name in ("attention.bias", "attention.masked_bias", "attention.rotary_emb.inv_freq"):
        tensors[f"gpt_neox.layers.0.{name}"] = torch.ones(1)
    save_file(tensors, path)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5
    edit_config(tmp_path, rotary_pct=None)
    assert read_checkpoint(tmp_path).config.position.partial_rotary_factor == 0.25
    edit_config(tmp_path, **form(0.75), rotary_pct=0.25)
    with pytest.raises(ConfigurationError, match=r"rope keys contradict each other: partial_rotary_factor 0\.25"):
        read_checkpoint(tmp_path)


WRONG = {
    "sequential": {"parallel": None},
    "one norm": {"parallel": "one_norm"},
    "activation": {"activation": "gelu_tanh"},
    "share": {"position": {"partial_rotary_factor": 0.25}},
    "whole": {"position": {"partial_rotary_factor": 1.0}},
    "base": {"position": {"theta": 1e4}},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
def test_a_wrong_rule_is_seen(tmp_path, changes):
    theirs = saved(
        tmp_path, "gpt_neox", use_parallel_residual=True, num_hidden_layers=3, hidden_act="gelu", **form(0.75)
    )
    checkpoint = read_checkpoint(tmp_path)
    if "position" in changes:
        changes = {"position": replace(checkpoint.config.position, **changes["position"])}
    config, tensors = replace(checkpoint.config, **changes), dict(checkpoint.tensors)
    if changes == {"parallel": "one_norm"}:
        tensors = {name: value for name, value in tensors.items() if "feed_forward.norm" not in name}
    found = difference(build_checkpoint(replace(checkpoint, config=config, tensors=tensors)), theirs)
    assert found > (2e-5 if "activation" in changes else 1e-2)


def test_another_order_of_the_fused_rows_is_seen(tmp_path):
    theirs = saved(tmp_path, "gpt_neox", num_attention_heads=3, hidden_size=24)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    for name, value in tensors.items():
        if "query_key_value" in name:
            tensors[name] = value.unflatten(0, (3, 3, -1)).transpose(0, 1).flatten(0, 2).contiguous()
    save_file(tensors, path)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) > 1e-2


def test_an_odd_number_of_rotated_components_is_refused(tmp_path):
    saved(tmp_path, "gpt_neox", num_attention_heads=3, hidden_size=24, **form(0.25))
    edit_config(tmp_path, **form(0.4))
    with pytest.raises(ConfigurationError, match=r"partial_rotary_factor: expected 2 or another even number .* 3 of 8"):
        read_checkpoint(tmp_path)


def test_a_width_of_heads_that_only_the_rotation_reads_is_refused(tmp_path):
    saved(tmp_path, "gpt_neox", head_dim=6)
    with pytest.raises(ConfigurationError, match="head_dim: the class reads it for the rotation alone"):
        read_checkpoint(tmp_path)
