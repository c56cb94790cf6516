from __future__ import annotations

import torch

from clozeline.registry import choose


def test_weights_are_their_own_anchors_and_new_ones_fall_to_zero() -> None:
    regularizer = choose("clozeline.train.optim.regularizers", {"name": "l2_sp", "alpha": 0.5, "beta": 0.25}).build()
    weight = torch.tensor([1.0, 2.0])
    own, new = (regularizer.anchor("a", weight, 0, fresh=fresh) for fresh in (False, True))
    weight += 1.0  # later updates do not move the anchor
    assert (own.anchor.tolist(), own.strength.tolist()) == ([1.0, 2.0], [0.5, 0.5])
    assert (new.anchor.tolist(), new.strength.tolist()) == ([0.0, 0.0], [0.25, 0.25])
