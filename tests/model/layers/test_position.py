"""Buckets of T5 against transformers, and waves against their formula."""

import math

import pytest
import torch
from transformers.models.t5.modeling_t5 import T5Attention

from clozeline.model.layers.position import Sinusoidal, t5_bucket


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "max_distance"), [(8, 20), (12, 50), (32, 128)])
def test_t5_buckets(buckets, max_distance, causal):
    distances = torch.arange(-600, 601)
    found = t5_bucket(distances, buckets, max_distance, causal)
    assert torch.equal(found, T5Attention._relative_position_bucket(distances, not causal, buckets, max_distance))
    assert {*found.tolist()} == {*range(buckets)} - (set() if causal else {buckets // 2})


def test_waves_against_fp64():
    """Sines and cosines in turn, or all sines and then all cosines."""
    places = torch.tensor([[0, 3, 4095]])
    interleaved, halves = Sinusoidal(6).embed(places), Sinusoidal(6, "halves").embed(places)
    assert interleaved.dtype == halves.dtype == torch.float32
    for row, place in enumerate((0, 3, 4095)):
        angles = [place / 10000 ** (2 * pair / 6) for pair in range(3)]
        sines, cosines = [math.sin(angle) for angle in angles], [math.cos(angle) for angle in angles]
        assert halves[0, row].tolist() == pytest.approx([*sines, *cosines], abs=1e-7)
        assert interleaved[0, row, ::2].tolist() == pytest.approx(sines, abs=1e-7)
        assert interleaved[0, row, 1::2].tolist() == pytest.approx(cosines, abs=1e-7)
