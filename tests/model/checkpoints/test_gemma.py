"""The gain 1 + weight, bit for bit, and the activations of all times."""

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, read_checkpoint
from tests.model.checkpoints.published import difference, edit_config, odd_llama, saved


def options(draw, found):
    act = draw.choice(["gelu", "gelu_pytorch_tanh", "silu"])
    return odd_llama(draw) | {"hidden_act": act, "attention_bias": draw.choice([True, False])}


def test_the_weight_of_a_norm_is_stored_without_the_1(tmp_path):
    theirs = saved(tmp_path, "gemma")
    tensors = read_checkpoint(tmp_path).tensors
    assert torch.equal(tensors["family.stack.norm.weight"], theirs.model.norm.weight)
    model = build_checkpoint(read_checkpoint(tmp_path))
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.data -= 1
    assert difference(model, theirs) > 1e-2


@pytest.mark.parametrize("keys", [{}, {"hidden_activation": None}, {"hidden_activation": "gelu_pytorch_tanh"}], ids=str)
def test_gelu_means_its_approximation(tmp_path, keys):
    theirs = saved(tmp_path, "gemma", hidden_act="gelu_pytorch_tanh")
    edit_config(tmp_path, hidden_act="gelu", **keys)
    checkpoint = read_checkpoint(tmp_path)
    assert (checkpoint.config.activation, checkpoint.notes) == ("gelu_tanh", ())
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"hidden_activation": "relu", "hidden_act": "gelu"}, "hidden_activation: expected that of hidden_act, 'gelu'"),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention: expected None, got True"),
    ],
    ids=["activations", "both directions"],
)
def test_other_computations_are_refused(tmp_path, keys, words):
    saved(tmp_path, "gemma")
    edit_config(tmp_path, **keys)
    with pytest.raises(ConfigurationError, match=words):
        read_checkpoint(tmp_path)
