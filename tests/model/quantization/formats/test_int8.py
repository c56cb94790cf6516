"""int8: the bound of its error, outliers, and exact sums."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from clozeline.model.quantization.formats import int8
from clozeline.model.quantization.formats.int8 import Int8, is_integer_product_faster

FORMAT = Int8(Int8.Options())


@given(st.integers(1, 9), st.integers(1, 33), st.integers(-6, 6), st.integers(0, 10**6))
def test_the_error_is_at_most_half_a_scale(outputs, inputs, power, seed):
    weight = torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(seed)) * 10.0**power
    integers, scales = FORMAT.quantize(weight)
    # the paper's formula, in fp64
    expected = torch.clamp(
        torch.round(weight.double() / (weight.double().abs().amax(1, keepdim=True) / 127)), -127, 127
    )
    assert (integers - expected).abs().max() <= 1  # a tie may fall on either side in fp32
    error = (FORMAT.dequantize(integers, scales).double() - weight.double()).abs()
    assert (error <= scales.double()[:, None] / 2 * (1 + 1e-4)).all()
    assert (integers.abs().amax(1) == 127).all()


def test_the_product_is_the_one_of_integers():
    """Against integers multiplied in int64, tokens rounded by the formula."""
    draw = torch.Generator().manual_seed(0)
    x, weight = torch.randn(6, 130, generator=draw), torch.randn(17, 130, generator=draw)
    integers, scales = FORMAT.quantize(weight)
    step = x.abs().amax(1, keepdim=True) / 127
    tokens = torch.round(x / step).long()
    expected = (tokens @ integers.T.long()).float() * step * scales
    assert torch.equal(FORMAT.product(x, integers, scales, None), expected)
    assert torch.equal(FORMAT.product(x, integers, scales, integers.float()), expected)
    assert torch.equal(FORMAT.product(x[None, :, None], integers, scales, None)[0, :, 0], expected)


def test_an_outlier_channel_harms_itself_only():
    """With one scale for the entire matrix it rounds all others to zero."""
    draw = torch.Generator().manual_seed(1)
    weight, x = torch.randn(32, 64, generator=draw), torch.randn(50, 64, generator=draw)
    weight[5] *= 1000
    others = torch.arange(32) != 5
    expected = (x @ weight.T)[:, others]
    by_channel = FORMAT.product(x, *FORMAT.quantize(weight), None)[:, others]
    step = weight.abs().max() / 127
    by_tensor = (x @ (torch.round(weight / step) * step).T)[:, others]
    assert (by_channel - expected).norm() < 0.02 * expected.norm()
    assert (by_tensor - expected).norm() > 0.5 * expected.norm()


def test_the_kernel_changes_no_bit(monkeypatch):
    weight, x = torch.randn(24, 96), torch.randn(2, 3, 96)
    integers, scales = FORMAT.quantize(weight)
    results = []
    for faster in (True, False):
        monkeypatch.setattr(int8, "is_integer_product_faster", lambda faster=faster: faster)
        prepared = FORMAT.prepare(integers, scales)
        assert (prepared is None) == faster
        results.append(FORMAT.product(x, integers, scales, prepared))
    assert torch.equal(*results)


def test_the_choice_of_the_kernel_is_measured_once():
    assert is_integer_product_faster() == is_integer_product_faster()
