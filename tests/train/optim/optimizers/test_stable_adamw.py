"""StableAdamW against algorithm 2 of arXiv 2304.13013, written out in float64."""

from __future__ import annotations

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.registry import choose
from tests.train.optim.optimizers.injected import SIZES, gradient, start_weights, whole_update


def test_updates_are_those_of_the_paper() -> None:
    """The paper's weighted means, each over all gradients so far; some steps are cut, by ratios that differ."""
    chosen = {"name": "stable_adamw", "learning_rate": 0.01, "betas": [0.8, 0.9], "eps": 0.3}
    found, cut = whole_update(chosen, 6), set()
    for name, start in start_weights().items():
        weight, decay = start.double().numpy(), 0.1 if start.dim() > 1 else 0.0
        seen: list[np.ndarray] = []
        for step in range(1, 7):
            seen.append(gradient(name, SIZES[name], step).double().numpy())
            ages = np.arange(step)[::-1]
            first = np.average(seen, axis=0, weights=0.8**ages)
            second = np.average(np.square(seen), axis=0, weights=0.9**ages)
            ratio = np.sqrt(np.mean(seen[-1] ** 2 / np.maximum(second, 0.09)))
            rate = 0.01 / max(1.0, ratio)
            weight = weight * (1 - rate * decay) - rate * first / (np.sqrt(second) + 0.3)
            cut.add((name, round(ratio, 2)) if ratio > 1 else None)
        assert found[name].numpy() == pytest.approx(weight, rel=1e-5, abs=1e-6)
    assert len(cut) > 5
    assert None in cut


@pytest.mark.parametrize("change", [{"betas": [0.9, 1.0]}, {"eps": 0}, {"learning_rate": 0}, {"weight_decay": -1}])
def test_values_out_of_range_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(change))):
        choose("clozeline.train.optim.optimizers", {"name": "stable_adamw", **change})
