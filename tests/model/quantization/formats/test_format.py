"""Promises of every number format: the stored form computes what the training computed, and refuses odd widths."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clozeline.model.quantization.formats._format import round_straight_through
from clozeline.registry import choose, find, names

PACKAGE = "clozeline.model.quantization.formats"
NAMES = names(PACKAGE)


def matrix(seed=0, outputs=9, inputs=64, spread=True):
    draw = torch.Generator().manual_seed(seed)
    weight = torch.randn(outputs, inputs, generator=draw)
    return weight * torch.logspace(-4, 2, outputs)[:, None] if spread else weight


@pytest.mark.parametrize("name", NAMES)
def test_a_file_holds_a_format_that_says_what_it_is(name):
    assert find(PACKAGE, name).__doc__
    plain = choose(PACKAGE, name).plain()
    assert (plain["embeddings"], plain["stored"]) == (False, False)


@pytest.mark.parametrize("name", NAMES)
def test_the_stored_product_is_the_product_of_the_training(name):
    chosen = choose(PACKAGE, name).build()
    weight, x = matrix(), torch.randn(3, 5, 64, generator=torch.Generator().manual_seed(1))
    integers, scales = chosen.quantize(weight)
    with torch.no_grad():
        trained = chosen.fake_product(x, weight)
        assert torch.equal(chosen.product(x, integers, scales, chosen.prepare(integers, scales)), trained)
        assert torch.equal(chosen.product(x, integers, scales, None), trained)
        assert torch.equal(chosen.round_weights(weight), chosen.dequantize(integers, scales))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_rounded_already_stays(name):
    chosen = choose(PACKAGE, name).build()
    integers, scales = chosen.quantize(matrix())
    again, same = chosen.quantize(chosen.dequantize(integers, scales))
    assert torch.equal(again, integers)
    assert torch.allclose(same.float(), scales.float(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_allocated_memory_has_the_form_of_integers(name):
    chosen = choose(PACKAGE, name).build()
    for made, empty in zip(chosen.quantize(matrix()), chosen.allocate(9, 64), strict=True):
        assert (made.shape, made.dtype) == (empty.shape, empty.dtype)


@pytest.mark.parametrize("name", NAMES)
def test_rows_can_be_read_alone(name):
    chosen = choose(PACKAGE, name).build()
    integers, scales = chosen.quantize(matrix())
    ids = torch.tensor([[4, 0], [8, 4]])
    assert torch.equal(chosen.dequantize(integers[ids], scales[ids]), chosen.dequantize(integers, scales)[ids])


@pytest.mark.parametrize("name", NAMES)
def test_gradients_go_straight_through(name):
    """As if y = x̂ ŵ^T, with both rounded values in the place of the true ones, and each rounding the identity."""
    chosen = choose(PACKAGE, name).build()
    weight = matrix(spread=False).requires_grad_()
    x = torch.randn(7, 64, generator=torch.Generator().manual_seed(3), requires_grad=True)
    direction = torch.randn(7, 9, generator=torch.Generator().manual_seed(4))
    (chosen.fake_product(x, weight) * direction).sum().backward()
    rounded = chosen.round_weights(weight).detach()
    identity = torch.eye(64)  # a product with it shows how activations are rounded
    tokens = chosen.fake_product(x.detach(), identity) if name == "int8" else x.detach()
    assert torch.allclose(x.grad, direction @ rounded, atol=1e-4)
    assert torch.allclose(weight.grad, direction.T @ tokens, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_zeros_stay_zeros(name):
    chosen = choose(PACKAGE, name).build()
    weight = torch.zeros(2, 64)
    integers, scales = chosen.quantize(weight)
    assert torch.equal(chosen.dequantize(integers, scales), weight)
    assert torch.equal(chosen.product(torch.zeros(1, 64), integers, scales, None), torch.zeros(1, 2))


@given(st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=8), st.integers(1, 12))
def test_rounding_is_the_nearest_integer_with_gradient_one_inside(values, limit):
    plain = torch.tensor(values)
    tensor = plain.clone().requires_grad_()
    rounded = round_straight_through(tensor, limit)
    rounded.sum().backward()
    for value, got, slope in zip(values, rounded.tolist(), tensor.grad.tolist(), strict=True):
        assert got == max(-limit, min(limit, round(value)))
        assert slope == float(abs(value) <= limit + 0.5)
    assert torch.equal(round_straight_through(plain, limit), rounded.detach())
