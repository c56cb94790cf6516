"""Verdicts on losses of known distributions."""

from __future__ import annotations

import numpy as np
import pytest

from tools.studies.scores import loss_of, verdict


def runs(mean: float, seed: int, count: int = 2) -> list[np.ndarray]:
    """Return sums and counts of 60 batches of 10 to 20 labels; the batches differ by the same amounts in all runs."""
    shared = np.random.default_rng(0)
    counts, hard = shared.integers(10, 20, 60).astype(float), shared.normal(0, 1, 60)
    own = np.random.default_rng(seed)
    return [np.stack([(mean + hard + own.normal(0, 0.05, 60)) * counts, counts], axis=1) for _ in range(count)]


@pytest.mark.parametrize(
    ("lower", "higher", "word"), [(3.0, 3.2, "held"), (3.2, 3.0, "not held"), (3.0, 3.0, "undecided")]
)
def test_the_verdict_is_about_the_same_rows(lower: float, higher: float, word: str) -> None:
    """A tenth of the spread of the rows is decided, since both variants read the same ones."""
    found = verdict(runs(lower, 1), runs(higher, 2))
    assert found.word == word
    assert found.low < found.gain < found.high
    assert abs(found.gain - (higher - lower)) < 0.05
    assert found.high - found.low < 0.1
    turned = verdict(runs(higher, 2), runs(lower, 1))
    assert (turned.gain, turned.low, turned.high) == pytest.approx((-found.gain, -found.high, -found.low))


def test_a_loss_weighs_batches_by_their_counts() -> None:
    assert loss_of(np.array([[10.0, 1.0], [10.0, 9.0]])) == 2.0
