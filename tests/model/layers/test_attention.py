"""Attention, with capped scores or without, against plain loops over rows, heads and positions."""

import math

import torch

from clozeline.model.layers.attention import attend_capped
from clozeline.model.layers.masks import AttentionPlan

B = 2
HEADS = 4
T = 5
WIDTH = 6
BOUND = 1.5
SCALE = 0.7


def parts(kv_heads):
    draw = torch.Generator().manual_seed(0)
    sizes = [(B, heads, T, WIDTH) for heads in (HEADS, kv_heads, kv_heads)]
    return [2 * torch.randn(size, generator=draw, dtype=torch.float64) for size in sizes]


def slow_capped(query, key, value, visible):
    """Each average by itself.

    `visible(row, query, key)` gives an addend, or None for what is not read.
    """
    shared = query.shape[1] // key.shape[1]
    mixed = torch.zeros_like(query)

    for row in range(B):
        for head in range(HEADS):
            for at in range(T):
                scores = {}

                for other in range(T):
                    if (addend := visible(row, at, other)) is not None:
                        score = SCALE * float(
                            query[row, head, at] @ key[row, head // shared, other]
                        )
                        scores[other] = BOUND * math.tanh(score / BOUND) + addend

                total = sum(map(math.exp, scores.values()))

                for other, score in scores.items():
                    mixed[row, head, at] += (
                        math.exp(score) / total * value[row, head // shared, other]
                    )

    return mixed


def causal(row, at, other):
    return 0.0 if other <= at else None


def test_scores_in_half_precision_are_capped_in_fp32():
    query, key, value = (part.bfloat16() for part in parts(2))
    found = attend_capped(query, key, value, AttentionPlan(None, causal=True), SCALE, BOUND, 0.0)

    assert found.dtype == torch.bfloat16
    assert (
        found - slow_capped(query.double(), key.double(), value.double(), causal)
    ).abs().max() < 0.05


def test_weights_are_dropped_in_training():
    torch.manual_seed(0)
    query, key, _ = parts(4)
    ones = torch.eye(T, dtype=torch.float64).expand(B, HEADS, -1, -1)
    weights = attend_capped(query, key, ones, AttentionPlan(), SCALE, BOUND, 0.5)
    assert 0.3 < (weights == 0).double().mean() < 0.7
