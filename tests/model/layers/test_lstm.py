"""Recurrent layers against torch's kernels and the equations, with their weights dropped by
hand."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from clozeline.model.layers.lstm import LongShortTermMemory, ProjectedLstm
from tests.model.closeness import FLOAT32, assert_gradients_close


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
    ours = layer()
    x = torch.randn(3, 11, 5)
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


def test_training_drops_recurrent_weights_the_same_ones_at_all_tokens():
    ours = layer(weight_dropout=0.5)
    x = torch.randn(3, 11, 5)
    torch.manual_seed(4)
    dropped = F.dropout(ours.recurrent, 0.5)

    assert 0.3 < dropped.eq(0).float().mean() < 0.7

    torch.manual_seed(4)

    assert torch.allclose(
        ours(x)[0],
        peer(ours, dropped)(x)[0],
        atol=1e-6,
    )


def projected(clip, scale=1.0):
    torch.manual_seed(0)
    built = ProjectedLstm(5, 7, 3, clip)
    for parameter in built.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return built


def slow_projected(x, weights, clip):
    """Equations 1 to 6 of arXiv 1402.1128 without peepholes.

    Cells and outputs are clipped where they are made.
    """

    def sigmoid(value):
        return 1 / (1 + np.exp(-value))

    rows = []

    for row in x:
        cell = np.zeros(7)
        output = np.zeros(3)
        found = []

        for token in row:
            gates = weights["input"] @ token + weights["recurrent"] @ output + weights["bias"]
            write, forget, candidate, read = (gates[7 * n : 7 * n + 7] for n in range(4))
            cell = sigmoid(forget) * cell + sigmoid(write) * np.tanh(candidate)
            cell = np.minimum(np.maximum(cell, -clip), clip)
            output = weights["projection"] @ (sigmoid(read) * np.tanh(cell))
            output = np.minimum(np.maximum(output, -clip), clip)
            found.append(output)

        rows.append(found)

    return np.array(rows)


@pytest.mark.parametrize("clip", [0.3, 1.5])
def test_cells_and_outputs_are_clipped(clip):
    ours = projected(clip, scale=2.0)
    x = torch.randn(2, 9, 5)
    weights = {name: value.detach().double().numpy() for name, value in ours.named_parameters()}
    found = ours(x).detach().numpy()

    assert found == pytest.approx(slow_projected(x.double().numpy(), weights, clip), abs=1e-4)
    assert np.abs(found).max() == pytest.approx(clip)
    assert not np.allclose(found, slow_projected(x.double().numpy(), weights, 1e9), atol=1e-2)
