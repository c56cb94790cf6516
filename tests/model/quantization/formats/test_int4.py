"""int4: the bound of its error, packed bytes, and groups."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.model.quantization.formats.int4 import Int4, group_scales, pack, unpack
from clozeline.registry import choose


@given(st.integers(1, 5), st.integers(1, 4), st.sampled_from([2, 6, 64]), st.integers(-7, 4), st.integers(0, 10**6))
def test_the_error_is_at_most_half_a_scale(outputs, groups, group, power, seed):
    chosen = Int4(Int4.Options(group=group))
    weight = torch.randn(outputs, groups * group, generator=torch.Generator().manual_seed(seed)) * 10.0**power
    integers, scales = chosen.quantize(weight)
    assert scales.dtype == torch.float16
    assert scales.shape == (outputs, groups)
    error = (chosen.dequantize(integers, scales).double() - weight.double()).abs().unflatten(1, (groups, group))
    assert (error <= scales.double()[..., None] / 2 * (1 + 1e-6)).all()


@given(st.lists(st.floats(0, 450_000, width=32), min_size=1, max_size=6))
def test_the_scale_is_the_smallest_that_reaches_the_largest_weight(values):
    groups = torch.tensor(values)[:, None]
    scales = group_scales(groups)
    for value, scale in zip(values, scales[:, 0], strict=True):
        if value == 0:
            assert scale == 1
            continue
        assert scale.float() * 7 >= torch.tensor(value)
        smaller = torch.tensor(scale.view(torch.int16).item() - 1, dtype=torch.int16).view(torch.float16)
        assert smaller.float() * 7 < torch.tensor(value)


@given(st.lists(st.integers(-8, 7), min_size=2, max_size=20).filter(lambda values: len(values) % 2 == 0))
def test_two_integers_are_in_a_byte(values):
    packed = pack(torch.tensor(values, dtype=torch.int8))
    assert packed.tolist() == [(low + 8) + 16 * (high + 8) for low, high in zip(values[::2], values[1::2], strict=True)]
    assert unpack(packed).tolist() == values


def test_groups_must_divide_the_width():
    chosen = Int4(Int4.Options(group=64))
    assert chosen.problem(192) == ""
    assert chosen.problem(100) == "groups of 64 inputs do not divide its width 100; set group=50"
    assert chosen.problem(9) == "groups of 64 inputs do not divide its width 9; use int8"
    with pytest.raises(ConfigurationError, match="multiple of 2"):
        choose("clozeline.model.quantization.formats", {"name": "int4", "group": 7})
