import math

import torch

from clozeline.model.layers.pooler import Pooler


def test_the_first_place_by_hand():
    pooler, hidden = Pooler(3), torch.randn(2, 4, 3)
    weight, bias = pooler.dense.weight.tolist(), pooler.dense.bias.tolist()
    for row in range(2):
        first = hidden[row, 0].tolist()
        wanted = [
            math.tanh(sum(w * x for w, x in zip(of, first, strict=True)) + bias[i]) for i, of in enumerate(weight)
        ]
        assert torch.allclose(pooler(hidden)[row], torch.tensor(wanted), atol=1e-6)


def test_without_a_transform_the_state_itself():
    pooler, hidden = Pooler(3, transform=False), torch.randn(2, 4, 3)
    assert list(pooler.parameters()) == []
    assert torch.equal(pooler(hidden), hidden[:, 0])
