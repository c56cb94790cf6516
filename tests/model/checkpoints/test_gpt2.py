import pytest
import torch
from safetensors.torch import load_file, save_file

from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from tests.model.checkpoints.published import difference, saved


def options(draw, found):
    return {"n_inner": draw.choice([7, 33, None]), "scale_attn_weights": draw.choice([True, False])}


@pytest.mark.parametrize("by_depth", [True, False])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("inner", [None, 21])
def test_scores_and_inner_width(tmp_path, by_depth, scaled, inner):
    scores = {"scale_attn_weights": scaled, "scale_attn_by_inverse_layer_idx": by_depth}
    theirs = saved(tmp_path, "gpt2", n_layer=3, n_inner=inner, **scores)
    checkpoint = read_checkpoint(tmp_path)
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    assert scores.items() <= export_checkpoint(checkpoint).config.items()


def test_masks_in_old_files_are_no_biases(tmp_path):
    theirs = saved(tmp_path, "gpt2")
    path = tmp_path / "model.safetensors"
    bare = {name.removeprefix("transformer."): tensor for name, tensor in load_file(path).items()}
    bare |= {"h.0.attn.bias": torch.ones(1, 1, 20, 20).tril(), "h.0.attn.masked_bias": torch.tensor(-1e4)}
    save_file(bare, path)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5
