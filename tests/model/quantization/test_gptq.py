"""GPTQ against a slow version written from the paper, and against rounding to the nearest."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clozeline.model.quantization.formats.int4 import Int4, unpack
from clozeline.model.quantization.gptq import round_with_moments


def slow_gptq(weight, x, group, damping):
    """Rows of `weight` [outputs, inputs], one at a time, as in section 3 of arXiv 2210.17323; x is [inputs, samples].

    OBQ's update in the order of the columns: with F the columns that are left and H_F = 2 X_F X_F^T,
    delta_F = -(w_q - quant(w_q)) / [H_F^-1]_qq * (H_F^-1)_{:, q}. The inverse is computed anew for each column.
    """
    hessian = 2 * x @ x.T
    hessian = hessian + damping * hessian.diagonal().mean() * torch.eye(len(hessian), dtype=torch.float64)
    result = torch.empty_like(weight)
    for number, row in enumerate(weight.clone()):
        for column in range(len(row)):
            if column % group == 0:
                largest = row[column : column + group].abs().max()
                scale = (largest.float() / 7).half()
                if scale.float() * 7 < largest.float():
                    scale = torch.nextafter(scale.float(), torch.tensor(float("inf"))).half()
                    while scale.float() * 7 < largest.float():
                        scale = torch.tensor(scale.view(torch.int16).item() + 1, dtype=torch.int16).view(torch.float16)
                scale = scale.double()
            rounded = scale * torch.clamp(torch.round(row[column] / scale), -7, 7)
            inverse = torch.linalg.inv(hessian[column:, column:])
            delta = -(row[column] - rounded) / inverse[0, 0] * inverse[:, 0]
            row[column:] += delta
            result[number, column] = rounded
    return result


def layer(seed, outputs=12, inputs=32, samples=96):
    """A matrix and correlated inputs [inputs, samples], fp64."""
    draw = torch.Generator().manual_seed(seed)
    mixing = torch.randn(inputs, inputs, generator=draw, dtype=torch.float64)
    x = mixing @ torch.randn(inputs, samples, generator=draw, dtype=torch.float64)
    return torch.randn(outputs, inputs, generator=draw, dtype=torch.float64), x


def restored(integers, scales):
    return (integers.unflatten(1, (scales.shape[1], -1)).double() * scales.double()[..., None]).flatten(1)


@pytest.mark.parametrize(("seed", "group"), [(0, 8), (1, 16), (2, 32), (3, 2)])
def test_it_is_the_papers_update(seed, group):
    weight, x = layer(seed, outputs=5)
    fast = restored(*round_with_moments(weight, x @ x.T, group))
    assert (fast - slow_gptq(weight, x, group, 0.01)).abs().max() < 1e-9


@pytest.mark.parametrize("seed", range(50))
def test_its_outputs_are_closer_than_those_of_the_nearest_integers(seed):
    weight, x = layer(seed)
    int4 = Int4(Int4.Options(group=16))
    nearest = int4.dequantize(*int4.quantize(weight.float())).double()
    calibrated = restored(*round_with_moments(weight, x @ x.T, 16))
    errors = [float((((weight - rounded) @ x) ** 2).sum()) for rounded in (calibrated, nearest)]
    assert errors[0] <= errors[1]


def test_it_helps_much_where_inputs_are_correlated():
    shares = []
    for seed in range(10):
        weight, x = layer(seed)
        int4 = Int4(Int4.Options(group=16))
        nearest = int4.dequantize(*int4.quantize(weight.float())).double()
        calibrated = restored(*round_with_moments(weight, x @ x.T, 16))
        errors = [float((((weight - rounded) @ x) ** 2).sum()) for rounded in (calibrated, nearest)]
        shares.append(errors[0] / errors[1])
    assert sum(shares) / len(shares) < 0.5


def test_uncorrelated_inputs_change_nothing():
    """A diagonal Hessian spreads no error: GPTQ is rounding to the nearest."""
    weight, _ = layer(7)
    int4 = Int4(Int4.Options(group=16))
    integers, scales = round_with_moments(weight, torch.eye(32, dtype=torch.float64), 16)
    packed, expected = int4.quantize(weight.float())
    assert torch.equal(integers, unpack(packed))
    assert torch.equal(scales, expected)


def test_inputs_that_are_always_zero_are_rounded_to_the_nearest():
    weight, x = layer(8)
    x[4] = 0
    integers, scales = round_with_moments(weight, x @ x.T, 32)
    assert torch.isfinite(restored(integers, scales)).all()
    integers, _ = round_with_moments(weight, torch.zeros(32, 32), 16)
    assert torch.equal(integers, unpack(Int4(Int4.Options(group=16)).quantize(weight.float())[0]))


@given(st.integers(1, 4), st.integers(1, 3), st.sampled_from([2, 6, 10]), st.integers(0, 1000))
def test_integers_stay_in_the_range(outputs, groups, group, seed):
    weight, x = layer(seed, outputs=outputs, inputs=groups * group, samples=7)
    integers, scales = round_with_moments(weight, x @ x.T, group)
    assert integers.abs().max() <= 7
    assert scales.shape == (outputs, groups)
