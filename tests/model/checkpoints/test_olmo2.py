"""Norms on the branches, and over the queries and keys of all heads."""

import pytest

from clozeline.model.checkpoints import build_checkpoint, read_checkpoint
from tests.model.checkpoints.published import difference, edit_config, odd_llama, saved


def options(draw, found):
    return odd_llama(draw) | {"attention_bias": draw.choice([True, False])}


@pytest.mark.parametrize("biased", [True, False])
def test_biases_and_the_width_of_a_head(tmp_path, biased):
    theirs = saved(tmp_path, "olmo2", attention_bias=biased, hidden_size=36, head_dim=6)
    edit_config(tmp_path, head_dim=None, layer_types=["full_attention"] * 5)
    checkpoint = read_checkpoint(tmp_path)
    assert (checkpoint.config.head_width, checkpoint.config.norm_place, checkpoint.notes) == (6, "branch", ())
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


def test_gains_are_as_wide_as_the_projections(tmp_path):
    saved(tmp_path, "olmo2")
    tensors = read_checkpoint(tmp_path).tensors
    layer = "family.stack.layers.0.attention"
    widths = {"body.query_norm": 60, "body.key_norm": 30}
    assert {part: len(tensors[f"{layer}.{part}.weight"]) for part in widths} == widths
    assert f"{layer}.norm.weight" not in tensors
