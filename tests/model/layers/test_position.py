"""Positions and their scaling against oracles written as loops."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from clozeline.model.configuration.position import ScalingConfig
from clozeline.model.layers.position import (
    Learned,
    Rope,
    Sinusoidal,
    T5Bias,
    attention_factor,
    frequencies,
    rotate,
    scale_frequencies,
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


def test_t5_bias_per_head_and_place():
    torch.manual_seed(0)
    bias = T5Bias(heads=3, buckets=8, max_distance=20, causal=False)
    same = torch.arange(5)[None]
    scores = bias.bias(same, same)
    assert scores.shape == (1, 3, 5, 5)
    for query in range(5):
        for key in range(5):
            row = bias.table.weight[bucket_of(key - query, 8, 20, False)]
            assert torch.equal(scores[0, :, query, key], row)
    different = torch.stack((same[0], torch.tensor([0, 1, 2, 0, 1])))  # a second document in the row
    assert bias.bias(different, different).shape == (2, 3, 5, 5)
    assert torch.equal(bias.bias(different, different)[:1], scores)
    assert torch.equal(bias.bias(same[:, 3:], same), scores[:, :, 3:])


def test_rope_turns_pairs_by_the_place():
    torch.manual_seed(0)
    x, places = torch.randn(1, 2, 4, 6), torch.tensor([[0, 1, 2, 7]])  # up to 2, angles up to 7
    turned = rotate(x, Rope(6, 100.0).rotation(places))
    for place in range(4):
        for pair in range(3):
            angle = places[0, place].item() * 100.0 ** (-2 * pair / 6)
            number = torch.complex(x[..., place, pair], x[..., place, pair + 3]) * complex(
                math.cos(angle), math.sin(angle)
            )
            assert torch.allclose(turned[..., place, pair], number.real, atol=1e-5)
            assert torch.allclose(turned[..., place, pair + 3], number.imag, atol=1e-5)


def test_rope_scores_depend_on_the_distance_only():
    torch.manual_seed(0)
    query, key = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)
    rope = Rope(8, 10000.0)

    def score(query_place, key_place):
        turned = [rotate(x, rope.rotation(torch.tensor([[p]]))) for x, p in ((query, query_place), (key, key_place))]
        return (turned[0] * turned[1]).sum().item()

    assert [score(start + 5, start) for start in (3, 40, 4000)] == pytest.approx([score(5, 0)] * 3, abs=1e-4)


def test_components_beyond_the_rotated_ones_stay():
    torch.manual_seed(0)
    x, places = torch.randn(1, 2, 4, 10), torch.tensor([[0, 1, 2, 7]])
    turned = rotate(x, Rope(6, 100.0).rotation(places))
    assert torch.equal(turned[..., 6:], x[..., 6:])
    assert torch.equal(turned[..., :6], rotate(x[..., :6], Rope(6, 100.0).rotation(places)))


def test_sinusoidal_waves():
    waves = Sinusoidal(6).embed(torch.tensor([[0, 3, 11]]))
    for row, place in enumerate((0, 3, 11)):
        for pair in range(3):
            angle = place / 10000 ** (2 * pair / 6)
            assert waves[0, row, 2 * pair].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert waves[0, row, 2 * pair + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_waves_in_halves():
    """All sines, then all cosines, against fp64."""
    waves = Sinusoidal(6, "halves").embed(torch.tensor([[0, 3, 4095]]))
    assert waves.dtype == torch.float32
    for row, place in enumerate((0, 3, 4095)):
        for pair in range(3):
            angle = place / 10000 ** (2 * pair / 6)
            assert waves[0, row, pair].item() == pytest.approx(math.sin(angle), abs=1e-7)
            assert waves[0, row, 3 + pair].item() == pytest.approx(math.cos(angle), abs=1e-7)


def test_learned_positions_start_after_the_offset():
    table = Learned(width=4, maximum=6, offset=2)
    assert table.table.num_embeddings == 8
    assert torch.equal(table.embed(torch.tensor([[0, 5]]))[0], table.table.weight[[2, 7]])


WIDTH, THETA = 16, 500.0


def one_wave(kind, pair, factor, old, longest=0, low=1.0, high=4.0, fast=32.0, slow=1.0, whole=True):
    plain = THETA ** (-2 * pair / WIDTH)
    length = 2 * math.pi / plain
    if kind == "linear":
        return plain / factor
    if kind == "dynamic":
        base = THETA * (factor * max(longest, old) / old - (factor - 1)) ** (WIDTH / (WIDTH - 2))
        return base ** (-2 * pair / WIDTH)
    if kind == "llama3":
        if length < old / high:
            return plain
        if length > old / low:
            return plain / factor
        share = (old / length - low) / (high - low)
        return (1 - share) * plain / factor + share * plain

    def pair_with(turns):  # the pair whose wave turns so often within the old rows
        return WIDTH * math.log(old / (turns * 2 * math.pi)) / (2 * math.log(THETA))

    first, last = pair_with(fast), pair_with(slow)
    if whole:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, WIDTH - 1)
    share = min(1, max(0, (pair - first) / (0.001 if last == first else last - first)))
    return share * plain / factor + (1 - share) * plain


CASES = {
    "linear": ({"kind": "linear", "factor": 3.0}, {}),
    "dynamic long": ({"kind": "dynamic", "factor": 2.5, "original_maximum": 9}, {"old": 9, "longest": 30}),
    "dynamic short": ({"kind": "dynamic", "factor": 2.5, "original_maximum": 40}, {"old": 40, "longest": 30}),
    "llama3": ({"kind": "llama3", "factor": 8.0, "original_maximum": 64}, {"old": 64}),
    "llama3 bounds": (
        {"kind": "llama3", "factor": 8.0, "original_maximum": 64, "low_freq_factor": 0.5, "high_freq_factor": 20.0},
        {"old": 64, "low": 0.5, "high": 20.0},
    ),
    "yarn": ({"kind": "yarn", "factor": 4.0, "original_maximum": 300}, {"old": 300}),
    "yarn parts": (
        {"kind": "yarn", "factor": 4.0, "original_maximum": 300, "beta_fast": 9.0, "beta_slow": 2.0, "truncate": False},
        {"old": 300, "fast": 9.0, "slow": 2.0, "whole": False},
    ),
    "yarn edge": (
        {"kind": "yarn", "factor": 4.0, "original_maximum": 8, "beta_fast": 2.0, "beta_slow": 1.5},
        {"old": 8, "fast": 2.0, "slow": 1.5},
    ),
}


@pytest.mark.parametrize(("keys", "numbers"), CASES.values(), ids=CASES)
def test_every_wave(keys, numbers):
    positions = torch.tensor([[0, 29, 3], [0, 1, 2]])
    found = scale_frequencies(ScalingConfig(**keys), WIDTH, THETA, positions)
    wanted = [one_wave(keys["kind"], pair, keys["factor"], **{"old": 0, **numbers}) for pair in range(WIDTH // 2)]
    assert found.dtype == torch.float32
    assert found.tolist() == pytest.approx(wanted, rel=1e-5)
    if "short" not in str(numbers) and numbers.get("longest", 99) > numbers.get("old", 0):
        assert found.tolist() != pytest.approx(frequencies(WIDTH, THETA, positions.device).tolist(), rel=1e-3)


@pytest.mark.parametrize(("longest", "chosen"), [(1, 0), (15, 0), (16, 1), (30, 1)])
def test_longrope_divides_by_the_list_of_the_longest_row(longest, chosen):
    """16 positions, 0 to 15, are those of the first training."""
    lists = [tuple(1.0 + scale * pair for pair in range(WIDTH // 2)) for scale in (0.1, 0.7)]
    scaling = ScalingConfig(
        kind="longrope", factor=4.0, original_maximum=16, short_factor=lists[0], long_factor=lists[1]
    )
    found = scale_frequencies(scaling, WIDTH, THETA, torch.tensor([[0, 1], [longest, 0]]))
    wanted = [1 / (lists[chosen][pair] * THETA ** (2 * pair / WIDTH)) for pair in range(WIDTH // 2)]
    assert found.tolist() == pytest.approx(wanted, rel=1e-5)
    assert attention_factor(scaling) == pytest.approx((1 + math.log(4) / math.log(16)) ** 0.5)
    assert attention_factor(replace(scaling, attention_factor=0.7)) == 0.7
    assert attention_factor(replace(scaling, factor=1.0)) == 1.0


@pytest.mark.parametrize(
    ("keys", "length"),
    [
        ({}, 0.1 * math.log(4) + 1),
        ({"attention_factor": 0.7}, 0.7),
        ({"mscale": 0.5, "mscale_all_dim": 1.3}, (0.05 * math.log(4) + 1) / (0.13 * math.log(4) + 1)),
        ({"mscale": 0.5}, 0.1 * math.log(4) + 1),
    ],
    ids=["paper", "given", "two scales", "one scale"],
)
def test_yarn_lengthens_queries_and_keys(keys, length):
    scaling = ScalingConfig(kind="yarn", factor=4.0, original_maximum=8, **keys)
    assert attention_factor(scaling) == pytest.approx(length)
    assert attention_factor(ScalingConfig(kind="linear", factor=4.0)) == 1.0
