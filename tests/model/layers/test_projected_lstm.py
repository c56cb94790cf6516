"""The loop against torch's kernel where nothing is clipped, and against the equations where something is."""

import numpy as np
import pytest
import torch

from clozeline.model.layers.projected_lstm import ProjectedLstm
from tests.model.closeness import FLOAT32, assert_gradients_close
from tests.model.small_models import drawn


def layer(clip, scale=1.0):
    torch.manual_seed(0)
    built = ProjectedLstm(5, 7, 3, clip)
    for parameter in built.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return built


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning")
def test_without_clipping_outputs_and_gradients_are_torchs():
    ours, x = layer(clip=1e9), torch.randn(2, 11, 5)
    theirs = torch.nn.LSTM(5, 7, batch_first=True, proj_size=3)
    pairs = {"input": "weight_ih_l0", "recurrent": "weight_hh_l0", "bias": "bias_ih_l0", "projection": "weight_hr_l0"}
    with torch.no_grad():
        theirs.bias_hh_l0.zero_()
        for mine, other in pairs.items():
            getattr(theirs, other).copy_(getattr(ours, mine))
    out, expected = ours(x), theirs(x)[0]
    assert torch.allclose(out, expected, atol=1e-5)
    out.square().sum().backward()
    expected.square().sum().backward()
    expected = {mine: getattr(theirs, other).grad for mine, other in pairs.items()}
    assert_gradients_close({name: getattr(ours, name).grad for name in pairs}, expected, FLOAT32)


def slow(x, weights, clip):
    """Equations 1 to 6 of arXiv 1402.1128 without peepholes; cells and outputs are clipped where they are made."""

    def sigmoid(value):
        return 1 / (1 + np.exp(-value))

    rows = []
    for row in x:
        cell, output, found = np.zeros(7), np.zeros(3), []
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
    ours, x = layer(clip, scale=2.0), torch.randn(2, 9, 5)
    weights = {name: value.detach().double().numpy() for name, value in ours.named_parameters()}
    found = ours(x).detach().numpy()
    assert found == pytest.approx(slow(x.double().numpy(), weights, clip), abs=1e-4)
    assert np.abs(found).max() == pytest.approx(clip)
    assert not np.allclose(found, slow(x.double().numpy(), weights, 1e9), atol=1e-2)


def test_initial_weights():
    ours = drawn(ProjectedLstm(64, 100, 80, 3.0))
    for name in ("input", "recurrent", "projection"):
        weight = getattr(ours, name)
        assert weight.abs().max() <= 0.1, name
        assert weight.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.05), name
    assert ours.bias.view(4, 100).eq(torch.tensor([0.0, 1.0, 0.0, 0.0])[:, None]).all()
