import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from clozeline.errors import ConfigurationError, WeightsError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, map_of_type, read_checkpoint
from tests.model.checkpoints.published import difference, edit_config, loaded, peer, saved


def options(draw, found):
    kind = draw.choice(["relu", "gated-gelu", "gated-silu", "gelu"])
    return {"d_kv": draw.choice([3, 6]), "feed_forward_proj": kind, "decoder_start_token_id": 0}


def untied(folder, **changes):
    """T5 1.1: transformers ties the head unless the tensors differ."""
    theirs = peer("t5", scale_decoder_outputs=False, feed_forward_proj="gated-gelu", **changes)
    weight = torch.randn(theirs.shared.weight.shape, generator=torch.Generator().manual_seed(8))
    theirs.lm_head.weight = torch.nn.Parameter(weight)
    theirs.save_pretrained(folder)
    return theirs


@pytest.mark.parametrize("key", [True, False, None])
def test_a_head_of_its_own_is_seen_in_the_file(tmp_path, key):
    theirs = untied(tmp_path)
    edit_config(tmp_path, tie_word_embeddings=key)
    if key is False:  # as the published files say it
        edit_config(tmp_path, scale_decoder_outputs=None)
    checkpoint = read_checkpoint(tmp_path)
    assert (checkpoint.config.tied, checkpoint.config.out_scale) == (False, False)
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    exported = export_checkpoint(checkpoint)
    assert "lm_head.weight" in exported.tensors
    assert exported.config["scale_decoder_outputs"] is False


def test_an_old_file_with_equal_copies_is_tied_and_scaled(tmp_path):
    theirs = saved(tmp_path, "t5")
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    copies = ("lm_head.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    tensors |= {name: tensors["shared.weight"].clone() for name in copies}
    tensors["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = torch.ones(8, 3)
    save_file(tensors, path)
    edit_config(tmp_path, tie_word_embeddings=None, scale_decoder_outputs=None)
    checkpoint = read_checkpoint(tmp_path)
    assert (checkpoint.config.tied, checkpoint.config.out_scale) == (True, True)
    assert "EncDecAttention.relative_attention_bias" in checkpoint.notes[0]
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    tensors["encoder.embed_tokens.weight"] += 1
    save_file(tensors, path)
    with pytest.raises(WeightsError, match=r"encoder\.embed_tokens\.weight and shared\.weight are one tensor"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("case", ["t5", "mt5", "umt5"])
def test_the_keys_of_the_block_that_the_class_writes_take_precedence(tmp_path, case):
    """Its files hold the activation and the gate next to their common name, and it reads all three."""
    saved(tmp_path, case, feed_forward_proj="gated-gelu")
    edit_config(tmp_path, feed_forward_proj="relu")
    theirs, report = loaded(tmp_path, map_of_type(case).classes[0].auto)
    assert report == {}
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5


def test_null_is_no_word_about_the_tie(tmp_path):
    theirs = saved(tmp_path, "t5")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tie_word_embeddings": None}))
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5


def test_an_unknown_feed_forward_block_is_refused(tmp_path):
    saved(tmp_path, "t5")
    edit_config(tmp_path, feed_forward_proj="gated-mish")
    with pytest.raises(ConfigurationError, match=r"feed_forward_proj: expected one of .*relu"):
        read_checkpoint(tmp_path)
