"""The phases of the data: the shard sets that a stream reads, their shares, and where each phase ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.errors import ConfigurationError
from pipeline.shards import Manifest, ShardSet, open_shards
from train.stream.config import DataConfig
from train.stream.mixture import Mixture, PhasePlan, SourceKey, Timeline
from train.stream.online_corruption import Corruption, corruption_of

__all__ = [
    "DataPhase",
    "Input",
    "as_phases",
    "continued",
    "describe",
    "distinct_inputs",
    "distinct_sets",
    "mixture_of",
    "open_phases",
    "phase_plans",
    "plain_plans",
    "read_plans",
    "set_labels",
]

_DIGEST_DIGITS = 32


class Input(NamedTuple):
    """A shard set, and the objective that corrupts its samples in the stream; None for examples."""

    shards: ShardSet
    corruption: Corruption | None = None

    @property
    def manifest(self) -> Manifest:
        """Return the manifest of the examples that the stream reads or makes."""
        manifest = self.shards.manifest
        return manifest if self.corruption is None else self.corruption.manifest(manifest)

    @property
    def key(self) -> SourceKey:
        """Return the identity of the input in phases and in saved states."""
        manifest, corruption = self.shards.manifest, "" if self.corruption is None else self.corruption.identity
        digest = self.shards.digest[:_DIGEST_DIGITS]
        return SourceKey(manifest.name, len(self.shards), manifest.block_rows, digest, corruption)


@dataclass(frozen=True)
class DataPhase:
    """One phase of the data; most runs have one phase of one set.

    Args:
        sets: shard sets that are mixed, each once.
        weights: shares of the sets; empty: equal shares.
        until_samples: position at which the phase ends; None for the last.
        global_batch: rows of a step; None: the stream's own.
        corruptions: of each set, the objective that corrupts its samples, or None; empty: None for all sets.
    """

    sets: tuple[ShardSet, ...]
    weights: tuple[float, ...] = ()
    until_samples: int | None = None
    global_batch: int | None = None
    corruptions: tuple[Corruption | None, ...] = ()

    @property
    def inputs(self) -> list[Input]:
        """Return the sets with their corruptions."""
        corruptions = self.corruptions or (None,) * len(self.sets)
        return [Input(*pair) for pair in zip(self.sets, corruptions, strict=True)]


def as_phases(data: ShardSet | Sequence[DataPhase]) -> list[DataPhase]:
    """Return phases; one set alone is one endless phase.

    Raises:
        ConfigurationError: there is no phase, or one without a set.
    """
    phases = [DataPhase((data,))] if isinstance(data, ShardSet) else list(data)
    if not phases or not all(phase.sets for phase in phases):
        raise ConfigurationError("data: expected a shard set or more in every phase, got none")
    return phases


def distinct_inputs(phases: Sequence[DataPhase]) -> dict[SourceKey, Input]:
    """Return the inputs of all phases, each once, in order of appearance; an input's place is its source number."""
    inputs: dict[SourceKey, Input] = {}
    for phase in phases:
        for one in phase.inputs:
            inputs.setdefault(one.key, one)
    return inputs


def distinct_sets(phases: Sequence[DataPhase]) -> list[ShardSet]:
    """Return the sets of all phases, each once, in order of appearance."""
    sets: dict[tuple[str, str], ShardSet] = {}
    for phase in phases:
        for shards in phase.sets:
            sets.setdefault((shards.manifest.name, shards.digest), shards)
    return list(sets.values())


def set_labels(sets: Sequence[ShardSet]) -> list[str]:
    """Return a name for each set; sets of one name and different content get their digests too."""
    digests: dict[str, set[str]] = {}
    for one in sets:
        digests.setdefault(one.manifest.name, set()).add(one.digest)
    names = [shards.manifest.name for shards in sets]
    return [
        name if len(digests[name]) == 1 else f"{name} ({shards.digest[:8]})"
        for name, shards in zip(names, sets, strict=True)
    ]


def phase_plans(phases: Sequence[DataPhase]) -> list[PhasePlan]:
    """Return the phases as states hold them: keys instead of sets, and the counts that are drawn in a period.

    Raises:
        ConfigurationError: a set appears twice in one phase, or there is not one weight for each set.
    """
    plans = []
    for phase in phases:
        sources = tuple(one.key for one in phase.inputs)
        if len({(key.name, key.digest) for key in sources}) < len(sources):
            names = [key.name for key in sources]
            raise ConfigurationError(f"a shard set appears twice in one mixture ({names}): give it a larger weight")
        if phase.weights and len(phase.weights) != len(sources):
            raise ConfigurationError(f"weights: expected one for each of {len(sources)} sets, got {phase.weights}")
        counts = tuple(map(float, mixture_of(phase).counts.tolist()))
        plans.append(PhasePlan(sources, counts, phase.until_samples, phase.global_batch))
    return plans


def plain_plans(plans: Sequence[PhasePlan]) -> list[Any]:
    """Return plans as plain data: sources, counts, end and global batch of each phase."""
    return [
        [[list(key) for key in plan.sources if not isinstance(key, int)], [int(count) for count in plan.weights],
         plan.until_samples, plan.global_batch]
        for plan in plans
    ]  # fmt: skip


def read_plans(plain: Any) -> list[PhasePlan]:
    """Return the plans from which `plain_plans` made plain data.

    Raises:
        ConfigurationError: the data is not of this form.
    """
    try:
        return [
            PhasePlan(tuple(SourceKey(*key) for key in keys), tuple(map(float, counts)), until, global_batch)
            for keys, counts, until, global_batch in plain
        ]
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"stream state: data: expected the phases of a stream, got {plain!r}") from error


def continued(saved: Sequence[PhasePlan], plans: Sequence[PhasePlan], samples: int) -> list[PhasePlan]:
    """Return the phases of a stream that has read `samples` by `saved` and continues by `plans`.

    If both are the same from this position on, return the saved ones. Else the phases that were read stay as they
    were, and the first remaining plan begins at this position, so that no row is read twice or left out.
    """
    if _after(saved, samples) == _after(plans, samples):
        return list(saved)
    past: list[PhasePlan] = []
    start = 0
    for plan in saved:
        end = samples if plan.until_samples is None else min(samples, plan.until_samples)
        if end > start:
            past.append(replace(plan, until_samples=end))
            start = end
    return [*past, *_after(plans, samples)]


def _after(plans: Sequence[PhasePlan], samples: int) -> list[PhasePlan]:
    """Return the plans that end after a position."""
    return [plan for plan in plans if plan.until_samples is None or plan.until_samples > samples]


def describe(phases: Sequence[DataPhase]) -> str:
    """Return the phases as text: sets, the shares that are drawn, ends and batches.

    Example: `wiki/train 0f3a...` or `0.75 wiki/train 0f3a... + 0.25 books/train 9b1c... until 64000 samples`.
    """
    return ", then ".join(_described(phase) for phase in phases)


def _described(phase: DataPhase) -> str:
    mixture = mixture_of(phase)
    shares = [f"{share} " if len(mixture) > 1 else "" for share in (mixture.counts / mixture.period).tolist()]
    sets = [f"{shards.manifest.name} {shards.digest[:16]}" for shards in phase.sets]
    text = " + ".join(share + one for share, one in zip(shares, sets, strict=True))
    text += f" in batches of {phase.global_batch}" if phase.global_batch is not None else ""
    return text + (f" until {phase.until_samples} samples" if phase.until_samples is not None else "")


def mixture_of(phase: DataPhase) -> Mixture:
    """Return the mixture that a phase draws; weights of 1 and 1 give the same one as 2 and 2."""
    return Mixture(phase.weights or (1.0,) * len(phase.sets))


def open_phases(data: DataConfig) -> tuple[DataPhase, ...]:
    """Open the configured training sets, each once, and assign the objectives that corrupt their samples.

    Raises:
        ConfigurationError: a set of samples has no objective that reads it, or more than one; a set appears twice in a
            mixture; there is not one weight for each set; or a phase does not end with a whole batch.
    """
    opened: dict[Path, ShardSet] = {}
    phases = []
    for phase in data.all_phases.values():
        for path in phase.sets:
            if path not in opened:
                opened[path] = open_shards(path, options=data.store)
        sets = tuple(opened[path] for path in phase.sets)
        # A batch equal to the run's own is not recorded, so that naming it does not make another phase.
        batch = None if phase.global_batch == data.global_batch else phase.global_batch
        entries = phase.corrupt or data.corrupt
        corruptions = tuple(
            corruption_of(entries, one) if entries and one.manifest.kind == "samples" else None for one in sets
        )
        phases.append(DataPhase(sets, tuple(phase.weights), phase.until_samples, batch, corruptions))
    Timeline(phase_plans(phases), data.lane_count, data.global_batch)
    return tuple(phases)
