from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from clozeline.train.optim.regularizers._regularizer import pull

NUMBERS = st.floats(-3, 3, width=32)


@given(weight=NUMBERS, anchor=NUMBERS, strength=st.floats(0, 1e6), rate=st.floats(1e-6, 1))
def test_a_pull_ends_at_the_minimum_of_penalty_and_distance(
    weight: float, anchor: float, strength: float, rate: float
) -> None:
    """Its derivative, by hand: s (v - a) + (v - w) / r = 0."""
    moved = torch.tensor([weight], dtype=torch.float64)
    pull(moved, torch.tensor([anchor], dtype=torch.float64), torch.tensor([strength], dtype=torch.float64), rate)
    expected = (weight + rate * strength * anchor) / (1 + rate * strength)
    assert abs(float(moved) - expected) <= 1e-9


def test_what_is_free_or_at_its_anchor_keeps_every_bit() -> None:
    weight = torch.randn(1000)
    for anchor, strength in ((torch.randn(1000), torch.zeros(1000)), (weight.clone(), torch.full((1000,), 1e8))):
        moved = weight.clone()
        pull(moved, anchor, strength, 0.1)
        assert torch.equal(moved, weight)
