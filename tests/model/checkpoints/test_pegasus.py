from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from clozeline.errors import WeightsError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, map_for, read_checkpoint
from tests.model.checkpoints.published import difference, edit_config, export_to, loaded, saved

READS_LEFT_PADDING = False
HAS_LOGITS_BIAS = True

TABLES = [f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")]
BOTH = ["pegasus", "marian"]


def options(draw, found):
    """Without a tie the class has three token tables, which is not built."""
    return {"decoder_start_token_id": 0, "tie_word_embeddings": True}


def change(folder, edit):
    """Let a function change the tensors of a directory."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    edit(tensors)
    save_file(tensors, path, {"format": "pt"})


@pytest.mark.parametrize("model_type", BOTH)
def test_the_keys_of_the_type(tmp_path, model_type):
    saved(tmp_path, model_type, scale_embedding=True)
    checkpoint = read_checkpoint(tmp_path)
    config = checkpoint.config
    assert (config.position.kind, config.position.waves, config.emb_norm) == ("sinusoidal", "halves", False)
    assert (config.norm_place, config.final_norm, config.emb_scale) == (
        *(("pre", True) if model_type == "pegasus" else ("post", False)),
        True,
    )
    assert config.heads["lm"].projection == "biased"
    assert map_for(config, checkpoint.token_ids).model_type == model_type


@pytest.mark.parametrize("model_type", BOTH)
@pytest.mark.parametrize("wrong", ["waves", "bias", "scale"])
def test_a_wrong_rule_is_seen(tmp_path, model_type, wrong):
    theirs = saved(tmp_path, model_type, scale_embedding=True)
    checkpoint = read_checkpoint(tmp_path)
    config, tensors = checkpoint.config, dict(checkpoint.tensors)
    if wrong == "waves":
        config = replace(config, position=replace(config.position, waves="interleaved"))
    elif wrong == "scale":
        config = replace(config, emb_scale=False)
    else:
        tensors["heads.lm.projection.bias"] = torch.zeros_like(tensors["heads.lm.projection.bias"])
    assert difference(build_checkpoint(replace(checkpoint, config=config, tensors=tensors)), theirs) > 1e-3


def test_far_positions_are_those_of_the_saved_table(tmp_path):
    """1,024 positions, whose fp32 angles would be off by 6e-5."""
    theirs = saved(tmp_path, "pegasus", max_position_embeddings=1024, d_model=30, encoder_attention_heads=3,
                   decoder_attention_heads=5)  # fmt: skip
    model = build_checkpoint(read_checkpoint(tmp_path))
    found = model.family.encoder.position.embed(torch.arange(1024))
    assert (found - theirs.model.encoder.embed_positions.weight).abs().max() < 2e-7


@pytest.mark.parametrize("model_type", BOTH)
@pytest.mark.parametrize("noise", [3e-7, 0.2], ids=["rounding", "other tables"])
def test_tables_that_are_no_waves_are_learned(tmp_path, model_type, noise):
    """The class reads the tables of a file, whatever they hold."""
    saved(tmp_path / "in", model_type)

    def disturb(tensors):
        draw = torch.Generator().manual_seed(1)
        width = tensors["model.shared.weight"].shape[1]
        angles = np.arange(20)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
        table = torch.tensor(np.concatenate((np.sin(angles), np.cos(angles)), axis=1)).float()
        for name in TABLES:
            tensors[name] = table + noise * torch.rand(table.shape, generator=draw)

    change(tmp_path / "in", disturb)
    theirs, _ = loaded(tmp_path / "in", "AutoModelForSeq2SeqLM")
    checkpoint = read_checkpoint(tmp_path / "in")
    assert checkpoint.config.position.kind == ("learned" if noise > 1e-6 else "sinusoidal")
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    # what goes out is what came in; Marian's tables of rounded waves are computed again
    export, before = export_checkpoint(checkpoint), load_file(tmp_path / "in" / "model.safetensors")
    dropped = set(TABLES) if model_type == "marian" and noise < 1e-6 else set()
    assert export.tensors.keys() == before.keys() - dropped
    assert all(torch.equal(tensor, before[name]) for name, tensor in export.tensors.items())
    again, report = loaded(export_to(tmp_path / "out", export), export.loader)
    assert report == {}
    assert difference(build_checkpoint(checkpoint), again) < 1e-5
    assert read_checkpoint(tmp_path / "out").config == checkpoint.config


@pytest.mark.parametrize("model_type", BOTH)
def test_without_tables_positions_are_computed(tmp_path, model_type):
    theirs = saved(tmp_path, model_type)
    change(tmp_path, lambda tensors: [tensors.pop(name, None) for name in TABLES])
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5
    edit_config(tmp_path, static_position_embeddings=False)
    with pytest.raises(WeightsError, match=r"2 tensors are missing: model\.decoder\.embed_positions\.weight"):
        read_checkpoint(tmp_path)


def test_half_precision_stays(tmp_path):
    saved(tmp_path / "first", "pegasus").to(torch.bfloat16).save_pretrained(tmp_path / "in")
    before = load_file(tmp_path / "in" / "model.safetensors")
    checkpoint = read_checkpoint(tmp_path / "in")
    assert checkpoint.config.position.kind == "sinusoidal"
    export = export_checkpoint(checkpoint)
    assert export.tensors.keys() == before.keys()
    assert all(torch.equal(export.tensors[name], tensor) for name, tensor in before.items())
