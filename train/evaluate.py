"""One exact pass over a held-out set, and the entropy that a model without context would reach there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from train.agreement import take_turn
from train.engine import Engine, MicroBatch
from train.stopping import StopRequest
from train.stream.stream import Stream
from train.watchdog import Watchdog

__all__ = ["Evaluation", "HeldoutSet", "evaluate", "passes", "unigram_entropy"]


@dataclass
class HeldoutSet:
    """A held-out set and what never changes about it."""

    name: str
    stream: Stream
    batches: int
    """global batches of an evaluation"""
    vocab_size: int
    entropy: float | None = field(default=None)
    """entropy of its labels in nats, once it has been read"""


@dataclass(frozen=True)
class Evaluation:
    """Results on one held-out set, over all ranks."""

    loss: float
    """weighted sum of the heads' mean losses, in nats"""
    losses: dict[str, float]
    """head → mean loss over all its labels"""
    labels: int
    """labels of all heads"""
    unigram_entropy: float
    """entropy of the empirical distribution of these very labels, in nats: the best loss without any context"""


@dataclass(frozen=True)
class _Source:
    """A pass as a source of turns."""

    steps: Iterator[Sequence[MicroBatch]]

    def next_step(self) -> Sequence[MicroBatch]:
        return next(self.steps)


def passes(rows: int, global_batch: int, most: int | None) -> int:
    """Global batches of an evaluation of a set, at most `most` rows rounded up to whole ones; 45 rows in 8s are 6."""
    return -(-(rows if most is None else min(rows, most)) // global_batch)


def evaluate(engine: Engine, heldout: HeldoutSet, watchdog: Watchdog, stop: StopRequest) -> Evaluation | None:
    """Read the set once, dropout off; the same figure at any world size with the same batches.

    Sums and counts are kept in float64, so that each label weighs the same.

    Returns:
        The results, or None where some rank was asked to stop: then all ranks have stopped at the same batch.

    Raises:
        ClozelineError: reading failed on some rank; raised on all of them.
    """
    engine.train(False)
    source = _Source(heldout.stream.one_pass(engine.config.data.global_batch, heldout.batches))
    try:
        with torch.no_grad():
            return _evaluated(engine, heldout, source, watchdog, stop)
    finally:
        engine.train(True)


def _evaluated(
    engine: Engine, heldout: HeldoutSet, source: _Source, watchdog: Watchdog, stop: StopRequest
) -> Evaluation | None:
    heads = engine.config.model.head_weights
    sums = {head: torch.zeros((), dtype=torch.float64, device=engine.world.device) for head in heads}
    counts = dict.fromkeys(heads, 0.0)
    histogram = torch.zeros(heldout.vocab_size if heldout.entropy is None else 0, dtype=torch.float64)
    for _ in range(heldout.batches):
        turn = take_turn(source, engine.heads, engine.world, stop)
        if turn.stop:
            return None
        for batch in turn.batches:
            losses = engine.losses(batch.tensors)
            for head in heads:
                sums[head] += losses[head].total
            if histogram.numel() and (labels := batch.tensors.get("label_ids")) is not None:
                histogram += torch.bincount(labels, minlength=heldout.vocab_size)
        for head in heads:
            counts[head] += turn.counts[head]
        watchdog.beat()
    totals = engine.world.total([*map(float, sums.values()), *histogram.tolist()])
    if heldout.entropy is None:
        heldout.entropy = unigram_entropy(totals[len(heads) :])
    means = {head: total / counts[head] if counts[head] else 0.0 for head, total in zip(heads, totals, strict=False)}
    return Evaluation(
        loss=sum(weight * means[head] for head, weight in heads.items()),
        losses=means,
        labels=int(sum(counts.values())),
        unigram_entropy=heldout.entropy,
    )


def unigram_entropy(counts: Sequence[float]) -> float:
    """Entropy in nats of the distribution with these counts; [1, 1, 2] gives 1.0397."""
    shares = torch.tensor([count for count in counts if count > 0], dtype=torch.float64)
    if not shares.numel():
        return 0.0
    shares /= shares.sum()
    return float(-(shares * shares.log()).sum())
