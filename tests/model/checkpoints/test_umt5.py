from dataclasses import replace

import pytest
import torch

from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from tests.model.checkpoints.published import difference, edit_config, export_to, loaded, peer, rows, saved, scores


def options(draw, found):
    kind = draw.choice(["relu", "gated-gelu", "gated-silu", "gelu"])
    return {"d_kv": draw.choice([3, 6]), "feed_forward_proj": kind, "decoder_start_token_id": 0}


def test_its_block_is_gated_and_every_layer_has_a_table(tmp_path):
    theirs = saved(tmp_path, "umt5", num_layers=3, num_decoder_layers=2, feed_forward_proj="gated-gelu")
    edit_config(tmp_path, feed_forward_proj=None)
    checkpoint = read_checkpoint(tmp_path)
    assert (checkpoint.config.out_scale, checkpoint.config.gated, checkpoint.config.tied) == (True, True, True)
    assert sum(".position.table." in name for name in checkpoint.tensors) == 5
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_one_table_for_all_layers_is_seen(tmp_path, stack):
    theirs = saved(tmp_path, "umt5", num_layers=2, num_decoder_layers=2)
    checkpoint = read_checkpoint(tmp_path)
    first, second = (f"family.{stack}.layers.{n}.position.table.weight" for n in (0, 1))
    tensors = {**checkpoint.tensors, second: checkpoint.tensors[first]}
    assert difference(build_checkpoint(replace(checkpoint, tensors=tensors)), theirs) > 1e-3


def own_head(folder):
    """A head of its own, as published files have it; the class uses it although it calls itself tied."""
    theirs = peer("umt5")
    weight = torch.randn(theirs.shared.weight.shape, generator=torch.Generator().manual_seed(8))
    theirs.lm_head.weight = torch.nn.Parameter(weight)
    theirs.save_pretrained(folder)
    return theirs


def test_a_head_of_its_own_in_a_file_of_transformers_5_reads_scaled_states(tmp_path):
    theirs = own_head(tmp_path / "in")
    checkpoint = read_checkpoint(tmp_path / "in")
    assert (checkpoint.config.tied, checkpoint.config.out_scale) == (False, True)
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    export = export_checkpoint(checkpoint)
    again, report = loaded(export_to(tmp_path / "out", export), export.loader)
    assert report == {}
    assert difference(build_checkpoint(checkpoint), again) < 1e-5
    assert read_checkpoint(tmp_path / "out").config == checkpoint.config


def test_a_published_head_of_its_own_reads_states_as_they_are(tmp_path):
    """Published files say that nothing is tied; transformers 5 scales all the same: the order of scores is ours."""
    theirs = own_head(tmp_path)
    edit_config(tmp_path, tie_word_embeddings=False)
    checkpoint = read_checkpoint(tmp_path)
    assert (checkpoint.config.tied, checkpoint.config.out_scale) == (False, False)
    ours, _, valid = rows(theirs)
    with torch.no_grad():
        found = build_checkpoint(checkpoint).logits(ours)["lm"][valid]
    expected = scores(theirs, ["lm"])["lm"]
    assert (found * theirs.config.d_model**-0.5 - expected).abs().max() < 1e-5
    assert torch.equal(found.argmax(-1), expected.argmax(-1))
    assert export_checkpoint(checkpoint).config["tie_word_embeddings"] is False
