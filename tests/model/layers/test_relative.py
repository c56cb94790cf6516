"""Relative attention against a loop over rows, heads, queries and keys."""

import math

import torch

from clozeline.model.layers.relative import (
    RelativeAttention,
    RelativePlan,
    distance_waves,
    wave_index,
)
from tests.model.small_models import small_config

DIM = 12
HEADS = 3
WIDTH = 4
T = 5
POSITIONS = torch.tensor([[0, 1, 2, 3, 4, 3, 1], [0, 1, 2, 3, 4, 0, 2]])
"""Of the states: five tokens, and two queries at positions that they predict."""


def wave(distance):
    angles = [distance / 10000 ** (2 * pair / DIM) for pair in range(DIM // 2)]
    return torch.tensor(
        [
            *map(math.sin, angles),
            *map(math.cos, angles),
        ]
    )


def test_content_distance_and_segments_are_added_and_a_query_that_reads_nothing_is_zero():
    torch.manual_seed(2)
    layer = RelativeAttention(small_config("encoder", dim=DIM, attention_heads=HEADS))
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    x = torch.randn(2, 7, DIM)
    apart = torch.rand(2, 1, 7, T) < 0.5
    visible = torch.rand(2, 1, 7, T) < 0.7
    visible[1, 0, 5] = False
    plan = RelativePlan(distance_waves(T, DIM, x.device), wave_index(POSITIONS, T), apart, visible)
    found = layer(x, plan).detach()
    weights = {name: own.detach() for name, own in layer.named_parameters()}
    query, key, value = (x @ weights[f"{name}.weight"].T for name in ("query", "key", "value"))

    for row in range(2):
        for at in range(7):
            mixed = torch.zeros(DIM)

            for own in (slice(head * WIDTH, (head + 1) * WIDTH) for head in range(HEADS)):
                scores = {}

                for other in (other for other in range(T) if visible[row, 0, at, other]):
                    there = weights["position.weight"] @ wave(int(POSITIONS[row, at]) - other)
                    segment = weights["segments"][int(apart[row, 0, at, other])]
                    parts = (
                        ("content_bias", key[row, other]),
                        ("position_bias", there),
                        ("segment_bias", segment),
                    )

                    scores[other] = sum(
                        (query[row, at] + weights[name])[own] @ read[own] for name, read in parts
                    )

                total = sum(math.exp(score / WIDTH**0.5) for score in scores.values())
                for other, score in scores.items():
                    mixed[own] += math.exp(score / WIDTH**0.5) / total * value[row, other, own]

            torch.testing.assert_close(
                found[row, at], weights["out.weight"] @ mixed, rtol=1e-4, atol=1e-4
            )

    assert not found[1, 5].any()
