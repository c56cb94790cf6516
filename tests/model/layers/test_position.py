"""Positions and their scaling against oracles written as loops."""

import math

import numpy as np
import pytest
import torch

from clozeline.model.layers.position import (
    Sinusoidal,
    t5_bucket,
)


def bucket_of(distance, buckets, max_distance, causal):
    """The rule in words: half the buckets per direction, half of those exact, the rest logarithmic."""
    start = 0
    if causal:
        span = max(0, -distance)
    else:
        buckets //= 2
        start = buckets if distance > 0 else 0
        span = abs(distance)
    exact = buckets // 2
    if span < exact:
        return start + span
    share = np.float32(np.log(np.float32(span) / np.float32(exact))) / np.float32(math.log(max_distance / exact))
    return start + min(buckets - 1, exact + int(np.float32(share) * np.float32(buckets - exact)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "max_distance"), [(8, 20), (12, 50), (32, 128)])
def test_t5_buckets(buckets, max_distance, causal):
    distances = list(range(-600, 601))
    found = t5_bucket(torch.tensor(distances), buckets, max_distance, causal).tolist()
    assert found == [bucket_of(distance, buckets, max_distance, causal) for distance in distances]
    assert set(found) == set(range(buckets)) - (set() if causal else {buckets // 2})


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
