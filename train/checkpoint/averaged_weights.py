"""The averages of the weights, for a while in the place of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from clozeline.train.checkpoint.format import WEIGHT
from clozeline.train.checkpoint.zero_partitions import fragments, refresh_weights
from clozeline.train.engine import Engine
from clozeline.train.optim.optimizers import AVERAGE


@contextmanager
def averages_as_weights(engine: Engine) -> Iterator[None]:
    """Let the model compute with its averages; afterwards every weight and average has its bits again.

    Where there are none, nothing happens.
    """
    kept = _exchange(engine)
    try:
        yield
    finally:
        if kept:
            _exchange(engine)


@torch.no_grad()
def _exchange(engine: Engine) -> bool:
    """Exchange weights and averages; return whether there are averages.

    All ranks have some or none: a rank whose flats hold only padding keeps averages of that.
    """
    if engine.average is None and not any(AVERAGE in state for state in engine.optimizer.state.values()):
        return False
    for piece in fragments(engine, owned=False):
        if AVERAGE in piece.tensors:
            weight, average = piece.tensors[WEIGHT], piece.tensors[AVERAGE]
            former = weight.clone()
            weight.copy_(average)
            average.copy_(former)
    refresh_weights(engine)
    return True
