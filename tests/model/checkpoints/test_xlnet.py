"""Parameters with an axis for the heads, and the kinds of XLNet that are not built."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from clozeline.errors import ConfigurationError, WeightsError
from clozeline.model.checkpoints import build_checkpoint, read_checkpoint
from tests.model.checkpoints.published import difference, edit_config, saved


def test_axes_of_heads_by_hand(tmp_path):
    """Feature w of head h is row h * width + w of our projections, and such a column of the one on the way out."""
    saved(tmp_path, "xlnet", d_model=12, n_head=3, n_layer=1)
    theirs, ours = load_file(tmp_path / "model.safetensors"), read_checkpoint(tmp_path).tensors
    there, here = "transformer.layer.0.rel_attn", "family.layers.0.attention.body"
    for head in range(3):
        rows = slice(4 * head, 4 * head + 4)
        for name, letter in {"query": "q", "key": "k", "value": "v", "position": "r"}.items():
            assert torch.equal(ours[f"{here}.{name}.weight"][rows], theirs[f"{there}.{letter}"][:, head].T)
        assert torch.equal(ours[f"{here}.out.weight"][:, rows], theirs[f"{there}.o"][:, head])
        assert torch.equal(ours[f"{here}.segments"][:, rows], theirs[f"{there}.seg_embed"][:, head])
        for name, letter in {"content": "w", "position": "r", "segment": "s"}.items():
            assert torch.equal(ours[f"{here}.{name}_bias"][rows], theirs[f"{there}.r_{letter}_bias"][head])
    assert torch.equal(ours["family.unknown"], theirs["transformer.mask_emb"][0, 0])


def test_keys_of_the_published_files_are_read_without_a_remark(tmp_path):
    theirs = saved(tmp_path, "xlnet")
    edit_config(tmp_path, untie_r=True, mem_len=None, reuse_len=None, same_length=False, summary_type="last",
                summary_use_proj=True, start_n_top=5, end_n_top=5)  # fmt: skip
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.notes == ()
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


@pytest.mark.parametrize(("key", "value"), [("attn_type", "uni"), ("bi_data", True), ("clamp_len", 8)])
def test_another_computation_is_refused(tmp_path, key, value):
    saved(tmp_path, "xlnet", **{key: value})
    with pytest.raises(ConfigurationError, match=f"{key}: expected .*, got {value!r}"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("change", ["missing", "unknown", "flat"])
def test_other_tensors_are_named(tmp_path, change):
    saved(tmp_path, "xlnet")
    path, name = tmp_path / "model.safetensors", "transformer.layer.0.rel_attn.r_w_bias"
    tensors = load_file(path)
    if change == "unknown":
        tensors["transformer.layer.0.rel_attn.k_bias"] = torch.ones(3)
    elif change == "missing":
        del tensors[name]
    else:
        tensors[name] = tensors[name].flatten()
    save_file(tensors, path)
    with pytest.raises(WeightsError, match=r"rel_attn\.k_bias" if change == "unknown" else r"rel_attn\.r_w_bias"):
        read_checkpoint(tmp_path)
