"""One exact pass over a held-out set, and the entropy that a model without context would reach there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import torch

from train.agreement import count_labels
from train.engine import Engine, MicroBatch
from train.watchdog import Watchdog

__all__ = ["Evaluation", "HeldoutSet", "evaluate", "unigram_entropy"]

B_co = TypeVar("B_co", bound=MicroBatch, covariant=True)


class Pass(Protocol[B_co]):
    """A stream that can be read once from end to end."""

    def one_pass(self, global_batch: int) -> Iterable[Sequence[B_co]]:
        """This rank's micro-batches of each global batch: equally many on every rank, filled up with empty rows."""


@dataclass
class HeldoutSet:
    """A held-out set and what never changes about it."""

    name: str
    stream: Pass[MicroBatch]
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


def evaluate(engine: Engine, heldout: HeldoutSet, watchdog: Watchdog) -> Evaluation:
    """Read the whole set once, dropout off; the same figure at any world size with the same batches.

    Sums and counts are kept in float64 and reduced once, so that each label weighs the same.
    """
    heads: Mapping[str, float] = engine.config.model.heads
    sums = dict.fromkeys(heads, 0.0)
    counts = dict.fromkeys(heads, 0.0)
    histogram = torch.zeros(heldout.vocab_size if heldout.entropy is None else 0, dtype=torch.float64)
    engine.train(False)
    with torch.no_grad():
        for batches in heldout.stream.one_pass(engine.config.data.global_batch):
            for batch in batches:
                losses = engine.losses(batch.tensors)
                for head in heads:
                    sums[head] += float(losses[head].total)
                    counts[head] += count_labels(engine.heads[head], [batch])
                if histogram.numel() and (labels := batch.tensors.get("label_ids")) is not None:
                    histogram += torch.bincount(labels, minlength=heldout.vocab_size)
            watchdog.beat()
    engine.train(True)
    totals = engine.world.total([*sums.values(), *counts.values(), *histogram.tolist()])
    if heldout.entropy is None:
        heldout.entropy = unigram_entropy(totals[2 * len(heads) :])
    means = {
        head: totals[index] / totals[len(heads) + index] if totals[len(heads) + index] else 0.0
        for index, head in enumerate(heads)
    }
    return Evaluation(
        loss=sum(weight * means[head] for head, weight in heads.items()),
        losses=means,
        labels=int(sum(totals[len(heads) : 2 * len(heads)])),
        unigram_entropy=heldout.entropy,
    )


def unigram_entropy(counts: Sequence[float]) -> float:
    """Entropy in nats of the distribution with these counts; [1, 1, 2] gives 1.0397."""
    shares = torch.tensor([count for count in counts if count > 0], dtype=torch.float64)
    if not shares.numel():
        return 0.0
    shares /= shares.sum()
    return float(-(shares * shares.log()).sum())
