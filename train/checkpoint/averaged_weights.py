"""Swap in the moving-average weights for an evaluation, then swap back."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from clozeline.train.checkpoint.format import WEIGHT
from clozeline.train.checkpoint.zero_partitions import fragments, states_of
from clozeline.train.engine import Engine
from clozeline.train.optim.optimizers import AVERAGE


@contextmanager
def averages_as_weights(engine: Engine) -> Iterator[None]:
    """Compute with the averaged weights inside the block, if there are any; afterwards all bits are restored."""
    exchanged = _exchange(engine)
    try:
        yield
    finally:
        if exchanged:
            _exchange(engine)


@torch.no_grad()
def _exchange(engine: Engine) -> bool:
    """Exchange weights and averages; return whether there are averages."""
    if not any(AVERAGE in states_of(engine, flat) for flat, _ in engine.zero.flats()):
        return False
    for piece in fragments(engine, owned=False):
        if AVERAGE in piece.tensors:
            weight, average = piece.tensors[WEIGHT], piece.tensors[AVERAGE]
            former = weight.clone()
            weight.copy_(average)
            average.copy_(former)
    engine.zero.refresh_model()
    return True
