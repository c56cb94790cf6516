"""The layer against torch's, with its weights dropped by hand."""

import pytest
import torch
from torch.nn import functional as F

from clozeline.model.layers.lstm import LongShortTermMemory
from tests.model.closeness import FLOAT32, assert_gradients_close
from tests.model.small_models import drawn


def layer(weight_dropout=0.0):
    torch.manual_seed(0)
    built = LongShortTermMemory(5, 7, weight_dropout)
    for parameter in built.parameters():
        torch.nn.init.normal_(parameter)
    return built


def peer(of, recurrent=None):
    """torch.nn.LSTM with the same weights, or another recurrent matrix."""
    theirs = torch.nn.LSTM(5, 7, batch_first=True)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(of.input)
        theirs.weight_hh_l0.copy_(of.recurrent if recurrent is None else recurrent)
        theirs.bias_ih_l0.copy_(of.bias)
        theirs.bias_hh_l0.zero_()
    return theirs


def test_outputs_states_and_gradients_are_torchs():
    ours, x = layer(), torch.randn(3, 11, 5)
    theirs = peer(ours)
    (out, (output, cell)), (expected, (last, cells)) = ours(x), theirs(x)
    assert torch.allclose(out, expected, atol=1e-6)
    assert torch.allclose(output, last[0], atol=1e-6)
    assert torch.allclose(cell, cells[0], atol=1e-6)
    out.square().sum().backward()
    expected.square().sum().backward()
    pairs = {"input": "weight_ih_l0", "recurrent": "weight_hh_l0", "bias": "bias_ih_l0"}
    expected = {mine: getattr(theirs, other).grad for mine, other in pairs.items()}
    assert_gradients_close({name: getattr(ours, name).grad for name in pairs}, expected, FLOAT32)


def test_a_state_continues_a_row():
    ours, x = layer(), torch.randn(3, 11, 5)
    whole, end = ours(x)
    first, state = ours(x[:, :4])
    rest, again = ours(x[:, 4:], state)
    assert torch.allclose(torch.cat((first, rest), dim=1), whole, atol=1e-6)
    assert all(torch.allclose(here, there, atol=1e-6) for here, there in zip(again, end, strict=True))


def test_training_drops_recurrent_weights_the_same_ones_at_all_tokens():
    ours, x = layer(weight_dropout=0.5), torch.randn(3, 11, 5)
    torch.manual_seed(4)
    dropped = F.dropout(ours.recurrent, 0.5)
    assert 0.3 < dropped.eq(0).float().mean() < 0.7
    torch.manual_seed(4)
    assert torch.allclose(ours(x)[0], peer(ours, dropped)(x)[0], atol=1e-6)


def test_weights_are_drawn_anew_in_training_and_whole_in_evaluation():
    ours, x = layer(weight_dropout=0.5), torch.randn(3, 11, 5)
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    assert not torch.equal(ours(x)[0], ours(x)[0])
    ours.eval()
    assert torch.allclose(ours(x)[0], peer(ours)(x)[0], atol=1e-6)
    assert list(before) == ["input", "recurrent", "bias"]
    assert all(torch.equal(ours.state_dict()[name], value) for name, value in before.items())
    other = layer(weight_dropout=0.5).eval()
    other.load_state_dict(before)
    assert torch.equal(other(x)[0], ours(x)[0])


@pytest.mark.parametrize("name", ["input", "recurrent"])
def test_initial_weights_are_uniform_and_cells_keep_their_content(name):
    ours = drawn(LongShortTermMemory(64, 100, 0.0))
    weight = getattr(ours, name)
    assert weight.abs().max() <= 0.1
    assert weight.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.05)
    assert ours.bias.view(4, 100).eq(torch.tensor([0.0, 1.0, 0.0, 0.0])[:, None]).all()
