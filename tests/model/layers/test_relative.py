"""Relative attention against loops over heads, queries and keys, and the shift of transformers."""

import math

import pytest
import torch
from transformers.models.xlnet.modeling_xlnet import XLNetRelativeAttention

from clozeline.model.layers.relative import RelativeAttention, RelativePlan, distance_waves, wave_index
from tests.model.small_models import small_config

HEADS, WIDTH, DIM, COLUMNS = 3, 5, 6, 4
PLACES = [[0, 1, 2, 3, 2, 0], [0, 1, 2, 3, 1, 1]]
"""places of the queries of two rows: all places, then two more"""
TYPES = [[0, 0, 1, 2], [0, 1, 1, 1]]


def attention():
    torch.manual_seed(0)
    module = RelativeAttention(small_config("xlnet", dim=DIM, attention_heads=HEADS, head_dim=WIDTH)).eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return module


def wave(distance, width):
    angles = [distance / 10000 ** (2 * pair / width) for pair in range(width // 2)]
    return torch.tensor([math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles])


def by_loops(module, x, visible):
    """The paper's formula, a pair at a time."""

    def of_head(vector, head):
        return vector[head * WIDTH : (head + 1) * WIDTH]

    out = torch.zeros(2, len(PLACES[0]), DIM)
    for row, places in enumerate(PLACES):
        for i, place in enumerate(places):
            mixed = torch.zeros(HEADS * WIDTH)
            for h in range(HEADS):
                q = of_head(module.query.weight @ x[row, i], h)
                scores = {}
                for j in range(COLUMNS):
                    if not visible[row, i, j]:
                        continue
                    k = of_head(module.key.weight @ x[row, j], h)
                    r = of_head(module.position.weight @ wave(place - j, DIM), h)
                    s = of_head(module.segments[int(TYPES[row][place] != TYPES[row][j])], h)
                    score = (q + of_head(module.content_bias, h)) @ k
                    score += (q + of_head(module.position_bias, h)) @ r + (q + of_head(module.segment_bias, h)) @ s
                    scores[j] = math.exp(score / math.sqrt(WIDTH))
                for j, score in scores.items():
                    value = of_head(module.value.weight @ x[row, j], h)
                    mixed[h * WIDTH : (h + 1) * WIDTH] += score / sum(scores.values()) * value
            out[row, i] = module.out.weight @ mixed
    return out


@pytest.mark.parametrize("masked", [False, True])
def test_the_formula_by_loops(masked):
    module, x = attention(), torch.randn(2, len(PLACES[0]), DIM)
    places, types = torch.tensor(PLACES), torch.tensor(TYPES)
    visible = torch.rand(2, len(PLACES[0]), COLUMNS) < 0.6 if masked else torch.ones(2, len(PLACES[0]), COLUMNS) > 0
    visible[0, 1] = not masked
    plan = RelativePlan(
        distance_waves(COLUMNS, DIM, x.device),
        wave_index(places, COLUMNS),
        (types.gather(1, places)[:, :, None] != types[:, None, :])[:, None],
        visible[:, None],
    )
    with torch.no_grad():
        found, wanted = module(x, plan), by_loops(module, x, visible)
    assert (found - wanted).abs().max() < 1e-5
    assert bool(found[0, 1].any()) != masked


@pytest.mark.parametrize("columns", [1, 2, 7])
def test_picking_by_distance_is_the_shift_of_transformers(columns):
    """Their scores of all waves have the distances T .. 1 - T, ours begin with T - 1."""
    theirs = torch.randn(1, 2, columns, 2 * columns)
    index = wave_index(torch.arange(columns)[None], columns)
    found = theirs[..., 1:].gather(3, index.expand(1, 2, -1, -1))
    assert torch.equal(found, XLNetRelativeAttention.rel_shift_bnij(theirs, columns))


def test_waves_by_hand():
    found = distance_waves(3, 8, torch.device("cpu"))
    assert found.shape == (1, 5, 8)
    for row, distance in enumerate((2, 1, 0, -1, -2)):
        assert torch.allclose(found[0, row], wave(distance, 8), atol=1e-6)
