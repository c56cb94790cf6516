"""Which shard sets a stream reads, in which shares and until when."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigurationError
from pipeline.shards import ShardSet, open_shards
from train.stream.config import DataConfig
from train.stream.mixture import Mixture, PhasePlan, Timeline

__all__ = [
    "DataPhase",
    "as_phases",
    "data_digest",
    "describe",
    "distinct_sets",
    "mixture_of",
    "open_phases",
    "phase_plans",
    "set_labels",
]


@dataclass(frozen=True)
class DataPhase:
    """One phase of the data; one phase of one set is the usual case.

    Args:
        sets: shard sets that are mixed, each once.
        weights: their shares; empty: equal ones.
        until_samples: position at which the phase ends; None for the last.
        global_batch: rows of a step; None: the stream's own.
    """

    sets: tuple[ShardSet, ...]
    weights: tuple[float, ...] = ()
    until_samples: int | None = None
    global_batch: int | None = None


def as_phases(data: ShardSet | Sequence[DataPhase]) -> list[DataPhase]:
    """One set alone is one endless phase of it."""
    return [DataPhase((data,))] if isinstance(data, ShardSet) else list(data)


def distinct_sets(phases: Sequence[DataPhase]) -> list[ShardSet]:
    """The sets of all phases, each once, in order of appearance; the place in this list is a set's source number.

    Raises:
        ConfigurationError: there is no phase, or one without a set.
    """
    if not phases or not all(phase.sets for phase in phases):
        raise ConfigurationError("data: expected a shard set or more in every phase, got none")
    found: dict[tuple[str, str], ShardSet] = {}
    for phase in phases:
        for shards in phase.sets:
            found.setdefault(_key(shards), shards)
    return list(found.values())


def set_labels(sets: Sequence[ShardSet]) -> list[str]:
    """What to call sets side by side: their names, with the digest where several have the same name."""
    names = [shards.manifest.name for shards in sets]
    return [
        name if names.count(name) == 1 else f"{name} ({shards.digest[:8]})"
        for name, shards in zip(names, sets, strict=True)
    ]


def phase_plans(phases: Sequence[DataPhase]) -> list[PhasePlan]:
    """The phases with numbers in place of sets.

    Raises:
        ConfigurationError: a set stands twice in one phase, or weights and sets are not equally many.
    """
    keys = [_key(shards) for shards in distinct_sets(phases)]
    plans = []
    for phase in phases:
        sources = tuple(keys.index(_key(shards)) for shards in phase.sets)
        if len(set(sources)) < len(sources):
            names = [shards.manifest.name for shards in phase.sets]
            raise ConfigurationError(f"a shard set stands twice in one mixture ({names}): give it a larger weight")
        if phase.weights and len(phase.weights) != len(sources):
            raise ConfigurationError(f"weights: expected one for each of {len(sources)} sets, got {phase.weights}")
        plans.append(PhasePlan(sources, phase.weights, phase.until_samples, phase.global_batch))
    return plans


def data_digest(phases: Sequence[DataPhase]) -> str:
    """SHA-256 (hex) of everything that decides which rows come when, besides seed and lanes."""
    facts: Any = [
        [
            [_key(shards) for shards in phase.sets],
            mixture_of(phase).counts.tolist(),
            phase.until_samples,
            phase.global_batch,
        ]
        for phase in phases
    ]
    if len(phases) == 1 and len(phases[0].sets) == 1 and phases[0].global_batch is None:
        facts = _key(phases[0].sets[0])  # one endless phase of one set says no more than the set
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def describe(phases: Sequence[DataPhase]) -> str:
    """The same facts for people, as a checkpoint holds them: sets, shares as they are drawn, ends and batches.

    Example: `wiki/train 0f3a...` or `0.75 wiki/train 0f3a... + 0.25 books/train 9b1c... until 64000 samples`.
    """
    return ", then ".join(_described(phase) for phase in phases)


def _described(phase: DataPhase) -> str:
    mixture = mixture_of(phase)
    shares = [f"{share} " if len(mixture) > 1 else "" for share in (mixture.counts / mixture.period).tolist()]
    sets = [f"{name} {digest[:16]}" for name, digest in map(_key, phase.sets)]
    found = " + ".join(share + one for share, one in zip(shares, sets, strict=True))
    found += f" in batches of {phase.global_batch}" if phase.global_batch is not None else ""
    return found + (f" until {phase.until_samples} samples" if phase.until_samples is not None else "")


def mixture_of(phase: DataPhase) -> Mixture:
    """The sets as they are drawn: weights of 1 and 1 are those of 2 and 2."""
    return Mixture(phase.weights or (1.0,) * len(phase.sets))


def _key(shards: ShardSet) -> tuple[str, str]:
    return (shards.manifest.name, shards.digest)


def open_phases(data: DataConfig) -> tuple[DataPhase, ...]:
    """The training sets as configured, each opened once.

    Raises:
        ConfigurationError: a set stands twice in a mixture, weights and sets are not equally many, or a phase ends
            where no whole batch ends.
    """
    opened: dict[Path, ShardSet] = {}
    phases = []
    for phase in data.all_phases.values():
        for path in phase.sets:
            if path not in opened:
                opened[path] = open_shards(path, options=data.store)
        sets = tuple(opened[path] for path in phase.sets)
        # the run's own batch is not a batch of the phase's own, however it is spelt: digests must not tell them apart
        batch = None if phase.global_batch == data.global_batch else phase.global_batch
        phases.append(DataPhase(sets, tuple(phase.weights), phase.until_samples, batch))
    Timeline(phase_plans(phases), data.lane_count, data.global_batch)
    return tuple(phases)
