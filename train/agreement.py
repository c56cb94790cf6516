"""What the ranks agree on before a step: label counts, tokens, a wish to stop, a failure. One collective for all."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from torch import Tensor

from pipeline.errors import ClozelineError
from train.distributed import World
from train.engine import MicroBatch
from train.stopping import Interrupted, StopRequest

__all__ = ["Counter", "Source", "Turn", "count_labels", "real_tokens", "take_turn"]

B_co = TypeVar("B_co", bound=MicroBatch, covariant=True)
B = TypeVar("B", bound=MicroBatch)


class Source(Protocol[B_co]):
    """Where a rank's micro-batches come from."""

    def next_step(self) -> Sequence[B_co]:
        """This rank's micro-batches of the next global batch."""


class Counter(Protocol):
    """A head, as far as counting goes."""

    def count(self, tensors: Mapping[str, Tensor]) -> int:
        """Labels of a batch, from its inputs alone."""


@dataclass(frozen=True)
class Turn(Generic[B]):
    """A global batch and what all ranks know of it."""

    batches: Sequence[B]
    """this rank's micro-batches"""
    counts: dict[str, float]
    """head → labels over all ranks"""
    tokens: int
    """real tokens over all ranks"""
    stop: bool
    """whether some rank was asked to stop: then nothing is trained on any more, and some ranks have no batch"""
    waited: float
    """seconds that the slowest rank waited for its micro-batches"""


def take_turn(source: Source[B], heads: Mapping[str, Counter], world: World, stop: StopRequest) -> Turn[B]:
    """Take the next global batch, unless somebody wants to stop; then no rank waits for data any longer.

    Raises:
        ClozelineError: reading failed on some rank; then it is raised on all of them, naming rank and cause.
    """
    batches: Sequence[B] = ()
    problem: Exception | None = None
    began = time.perf_counter()
    try:
        if not stop.wanted():
            batches = _interruptible(source, stop)
    except (ClozelineError, OSError) as error:
        problem = error
    waited = [0.0] * world.size
    waited[world.rank] = time.perf_counter() - began
    labels = [count_labels(head, batches) for head in heads.values()]
    flags = [float(stop.reason is not None), float(problem is not None)]
    totals = world.total([*waited, *flags, real_tokens(batches), *labels])
    stops, problems, tokens, *counts = totals[world.size :]
    if problems:
        world.share(problem)
    return Turn(batches, dict(zip(heads, counts, strict=True)), int(tokens), stops > 0, max(totals[: world.size]))


def _interruptible(source: Source[B], stop: StopRequest) -> Sequence[B]:
    """The next batches, or none where a signal comes before they do: a store may not answer for minutes."""
    try:
        stop.interrupts = True
        batches = source.next_step()
        stop.interrupts = False
    except Interrupted:
        return ()
    finally:
        stop.interrupts = False
    return batches


def count_labels(head: Counter, batches: Iterable[MicroBatch]) -> float:
    """Labels of a head in some micro-batches."""
    return float(sum(head.count(batch.tensors) for batch in batches))


def real_tokens(batches: Iterable[MicroBatch]) -> float:
    """Tokens of rows with weight, of both rows of an encoder-decoder, without padding."""
    total = 0.0
    for batch in batches:
        weighted = batch.tensors["row_weight"] > 0
        for name in ("lengths", "decoder_lengths"):
            if (lengths := batch.tensors.get(name)) is not None:
                total += float(lengths[weighted].sum())
    return total
