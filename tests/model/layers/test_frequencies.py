"""Each kind of scaling against the rule of its paper, one wave after the other."""

import math
from dataclasses import replace

import pytest
import torch

from clozeline.model.configuration.position import ScalingConfig
from clozeline.model.layers.frequencies import attention_factor, frequencies, scale_frequencies

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
