"""Muon and its AdamW against torch's, in plain steps and in runs."""

import pytest
import torch

from tests.train.optim.optimizers.injected import SIZES, gradient, start_weights, whole_update


@pytest.mark.parametrize("adjust", ["match_rms_adamw", "original"])
def test_updates_are_those_of_torch(monkeypatch, adjust):
    """Bit for bit, in high and wide matrices, two of one shape.

    Vectors are AdamW's, with a rate of their own.
    """
    monkeypatch.setitem(SIZES, "again", SIZES["up"])
    own = {"momentum": 0.8, "adjust": adjust, "eps": 1e-3, "adam_rate": 0.5}
    found = whole_update({"name": "muon", "learning_rate": 0.02, **own}, 5)
    weights = start_weights()
    matrices = [weight for weight in weights.values() if weight.dim() == 2]
    vectors = [weight for weight in weights.values() if weight.dim() == 1]
    muon = torch.optim.Muon(matrices, lr=0.02, weight_decay=0.1, momentum=0.8, adjust_lr_fn=adjust)
    adamw = torch.optim.AdamW(
        vectors, lr=0.01, betas=(0.9, 0.95), eps=1e-3, weight_decay=0.0, foreach=False
    )

    for step in range(1, 6):
        for name, weight in weights.items():
            weight.grad = gradient(name, SIZES[name], step)
        muon.step()
        adamw.step()

    for name, weight in weights.items():
        if weight.dim() == 2:
            assert torch.equal(found[name], weight)
        else:
            torch.testing.assert_close(found[name], weight, rtol=1e-6, atol=1e-7)
