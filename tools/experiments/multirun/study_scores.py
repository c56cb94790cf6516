"""Compare runs by their losses on batches of the same held-out rows."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clozeline.seeding import hash64
from clozeline.tools.experiments.multirun.comparison import Difference, difference_of

Float64: TypeAlias = NDArray[np.float64]
_RESAMPLES: Final = 1000


def loss_of(batches: Float64) -> float:
    """Return the mean loss in nats of batches [n, 2] of sums and counts."""
    total, count = batches.sum(axis=0)
    return float(total / count)


def verdict(lower: Sequence[Float64], higher: Sequence[Float64], seed: int = 0) -> Difference:
    """Return how much lower the loss of one variant is than another's, in nats, by bootstrap over the same batches.

    `lower` and `higher` hold sums and counts [batches, 2] of each run of a variant; the first is claimed to have the
    lower loss.
    """
    draws = np.random.Generator(np.random.Philox(key=hash64("verdict", seed)))
    rows = len(lower[0])
    counts = draws.multinomial(rows, np.full(rows, 1 / rows), _RESAMPLES)  # counts of each batch, [resamples, batches]
    resampled_losses = [np.mean([np.divide(*(counts @ run).T) for run in runs], axis=0) for runs in (higher, lower)]
    losses = [[loss_of(run) for run in runs] for runs in (higher, lower)]
    return difference_of(losses[0], losses[1], resampled_losses[0] - resampled_losses[1], rows)
