"""The mixture against a loop over its layers and places."""

import pytest
import torch

from clozeline.model.layers.scalar_mix import ScalarMix


def given():
    torch.manual_seed(0)
    return [torch.randn(2, 5, 3) for _ in range(3)], torch.tensor([[True] * 5, [True, True, False, False, False]])


def test_at_first_it_is_the_mean():
    states, real = given()
    assert torch.allclose(ScalarMix(3)(states, real), sum(states) / 3, atol=1e-6)


@pytest.mark.parametrize("layer", range(3))
def test_one_weight_chooses_a_layer(layer):
    states, real = given()
    mix = ScalarMix(3)
    mix.weights.data[layer] = 1e4
    mix.gain.data[0] = 2.0
    assert torch.equal(mix(states, real), 2 * states[layer])


def test_layers_are_normalised_over_real_places():
    states, real = given()
    mix = ScalarMix(3, normalize=True)
    mix.weights.data = torch.tensor([0.3, -0.2, 0.9])
    shares = mix.weights.data.exp() / mix.weights.data.exp().sum()
    expected = torch.zeros(2, 5, 3)
    for share, state in zip(shares, states, strict=True):
        values = torch.cat((state[0].flatten(), state[1, :2].flatten()))
        expected += share * (state - values.mean()) / values.std(unbiased=False)
    assert torch.allclose(mix(states, real), expected, atol=1e-5)


def test_weights_and_gain_learn_and_states_do_not():
    states, real = given()
    mix = ScalarMix(3)
    mix(states, real).square().sum().backward()
    assert mix.weights.grad.abs().gt(0).all()
    assert mix.gain.grad.abs().gt(0).all()
