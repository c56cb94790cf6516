"""The norms of queries and keys; windows are those of Qwen 2."""

from clozeline.model.checkpoints import build_checkpoint, read_checkpoint
from tests.model.checkpoints.published import LAYER_TYPES, difference, edit_config, odd_llama, saved


def options(draw, found):
    windows = {"use_sliding_window": True, "sliding_window": draw.choice([3, 4]), "layer_types": LAYER_TYPES}
    return odd_llama(draw) | windows | {"attention_bias": draw.choice([True, False])}


def test_an_absent_width_is_128(tmp_path):
    theirs = saved(tmp_path, "qwen3", head_dim=128)
    edit_config(tmp_path, head_dim=None)
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.config.head_width == 128
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


def test_all_four_projections_have_a_bias_or_none(tmp_path):
    for biased in (True, False):
        saved(tmp_path / str(biased), "qwen3", attention_bias=biased)
        bias = read_checkpoint(tmp_path / str(biased)).config.bias
        assert (bias.qkv, bias.out, bias.ffn) == (biased, biased, False)


def test_one_gain_serves_all_heads(tmp_path):
    saved(tmp_path, "qwen3")
    tensors = read_checkpoint(tmp_path).tensors
    assert tensors["family.stack.layers.0.attention.body.query_norm.weight"].shape == (10,)
