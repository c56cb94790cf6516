"""Open the phases of the data: shard sets, their shares, and where each phase ends."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import Manifest, ShardSet, open_shards
from clozeline.pipeline.shards.column_set import JoinedShards
from clozeline.train.configuration.data import DataConfig
from clozeline.train.data.stream.mixture import Phase, SourceKey, Timeline
from clozeline.train.data.stream.online_corruption import Corruption, corruption_of

DIGEST_DIGITS: Final = 32
"""hexadecimal digits of the digest of a set in the state of a stream"""


class Input(NamedTuple):
    """A shard set, and the corruption of its samples in the stream; None for examples."""

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
        manifest = self.shards.manifest
        change = "" if self.corruption is None else self.corruption.identity
        if isinstance(self.shards, JoinedShards):
            change = f"columns {self.shards.columns_digest[:16]}"
        digest = self.shards.digest[:DIGEST_DIGITS]
        return SourceKey(manifest.name, len(self.shards), manifest.block_rows, digest, change)


def phase_of(
    sets: Sequence[ShardSet],
    weights: Sequence[float] = (),
    until_samples: int | None = None,
    global_batch: int | None = None,
    corruptions: Sequence[Corruption | None] = (),
) -> Phase[Input]:
    """Return a phase of shard sets; `corruptions` has one per set (None for examples), or none."""
    inputs = tuple(
        Input(*pair) for pair in zip(sets, corruptions or (None,) * len(sets), strict=True)
    )
    return Phase(inputs, tuple(weights), until_samples, global_batch)


def as_phases(data: ShardSet | Input | Sequence[Phase[Input]]) -> list[Phase[Input]]:
    """Return phases; a single set is one endless phase."""
    single = Input(data) if isinstance(data, ShardSet) else data
    phases = [Phase((single,))] if isinstance(single, Input) else single
    if not isinstance(phases, Sequence) or not (
        phases and all(isinstance(phase, Phase) and phase.sources for phase in phases)
    ):
        raise ConfigurationError(
            "data: expected a set of open_shards, or phases with at least one set in each, got "
            f"{data!r}"
        )
    return list(phases)


def distinct_inputs(phases: Sequence[Phase[Input]]) -> dict[SourceKey, Input]:
    """Return the inputs of all phases, each once; their order gives the source indices."""
    inputs: dict[SourceKey, Input] = {}
    for phase in phases:
        for source in phase.sources:
            inputs.setdefault(source.key, source)
    return inputs


def distinct_sets(phases: Sequence[Phase[Input]]) -> list[ShardSet]:
    """Return the sets of all phases, each once, in order of appearance."""
    sets: dict[tuple[str, str], ShardSet] = {}
    for phase in phases:
        for shards, _ in phase.sources:
            sets.setdefault((shards.manifest.name, shards.digest), shards)
    return list(sets.values())


def set_labels(sets: Sequence[ShardSet]) -> list[str]:
    """Return a name for each set, with its digest if another set has the same name."""
    identities = [(shards.manifest.name, shards.digest) for shards in sets]
    contents = Counter(name for name, _ in set(identities))
    return [
        name if contents[name] == 1 else f"{name} ({digest[:8]})" for name, digest in identities
    ]


def key_phases(phases: Sequence[Phase[Input]]) -> list[Phase[SourceKey]]:
    """Return the phases as states store them: with keys of sets, and counts per period."""
    keyed: list[Phase[SourceKey]] = []

    for phase in phases:
        sources = tuple(source.key for source in phase.sources)
        if len({(key.name, key.digest) for key in sources}) < len(sources):
            names = [key.name for key in sources]
            raise ConfigurationError(
                f"a shard set appears twice in one mixture ({names}): give it a larger weight"
            )

        if phase.weights and len(phase.weights) != len(sources):
            raise ConfigurationError(
                f"data.weights: expected one for each of {len(sources)} shard sets, got "
                f"{[*phase.weights]}"
            )

        counts = tuple(map(float, phase.mixture().counts.tolist()))
        keyed.append(Phase(sources, counts, phase.until_samples, phase.global_batch))

    return keyed


def phases_to_data(phases: Sequence[Phase[SourceKey]]) -> list[object]:
    """Return phases as lists: sources, counts, end and global batch of each phase."""
    return [
        [
            [list(key) for key in phase.sources],
            [int(count) for count in phase.weights],
            phase.until_samples,
            phase.global_batch,
        ]
        for phase in phases
    ]


def read_phases(data: Any) -> list[Phase[SourceKey]]:
    """Return the phases from the lists of `phases_to_data`."""
    try:
        return [
            Phase(
                tuple(SourceKey(*key) for key in keys),
                tuple(map(float, counts)),
                until,
                global_batch,
            )
            for keys, counts, until, global_batch in data
        ]
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"stream state: data: expected the phases of a stream, got {data!r}"
        ) from error


def continue_phases(
    saved: Sequence[Phase[SourceKey]], phases: Sequence[Phase[SourceKey]], samples: int
) -> list[Phase[SourceKey]]:
    """Return the phases of a stream that continues with `phases` after `samples` of `saved`.

    If both agree from this position on, return the saved phases. Otherwise the phases that were
    read stay, and the first remaining phase starts at this position: no row is repeated or skipped.
    """
    if _remaining(saved, samples) == _remaining(phases, samples):
        return list(saved)
    past: list[Phase[SourceKey]] = []
    start = 0
    for phase in saved:
        end = samples if phase.until_samples is None else min(samples, phase.until_samples)
        if end > start:
            past.append(replace(phase, until_samples=end))
            start = end
    return [*past, *_remaining(phases, samples)]


def _remaining(phases: Sequence[Phase[SourceKey]], samples: int) -> list[Phase[SourceKey]]:
    return [
        phase for phase in phases if phase.until_samples is None or phase.until_samples > samples
    ]


def describe(phases: Sequence[Phase[Input]]) -> str:
    """Describe the phases as text: sets, shares, ends and batch sizes.

    Example: `wiki/train 0f3a...` or `0.75 wiki/train 0f3a... + 0.25 books/train 9b1c... until 64000
    samples`.
    """
    texts = []

    for phase in phases:
        mixture = phase.mixture()
        shares = [
            f"{share} " if len(mixture) > 1 else ""
            for share in (mixture.counts / mixture.period).tolist()
        ]
        sets = [f"{shards.manifest.name} {shards.digest[:16]}" for shards, _ in phase.sources]
        text = " + ".join(share + label for share, label in zip(shares, sets, strict=True))
        text += f" in batches of {phase.global_batch}" if phase.global_batch is not None else ""
        texts.append(
            text
            + (f" until {phase.until_samples} samples" if phase.until_samples is not None else "")
        )

    return ", then ".join(texts)


def open_phases(data: DataConfig, *, check_files: bool = True) -> tuple[Phase[Input], ...]:
    """Open the configured training sets, each once, with the corruptions of their samples.

    `check_files`: check the files of the shards, see `open_shards`.
    """
    opened: dict[tuple[Path, tuple[Path, ...]], ShardSet] = {}
    phases = []

    for phase in data.all_phases.values():
        set_keys = list(zip(phase.sets, phase.columns, strict=True))
        # open each set once, with its column sets
        for path, columns in set_keys:
            if (path, columns) not in opened:
                options: dict[str, Any] = {"options": data.store, "check_files": check_files}
                shards = open_shards(path, **options)
                parts = [open_shards(column_set, **options) for column_set in columns]
                opened[path, columns] = JoinedShards(shards, parts) if parts else shards

        sets = tuple(opened[entry] for entry in set_keys)

        # a batch size equal to the run's is not recorded: naming it does not change the phase
        batch = None if phase.global_batch == data.global_batch else phase.global_batch
        entries = phase.corrupt or data.corrupt
        corruptions = tuple(
            corruption_of(entries, shards)
            if entries and shards.manifest.kind == "samples"
            else None
            for shards in sets
        )

        phases.append(phase_of(sets, phase.weights, phase.until_samples, batch, corruptions))

    Timeline(key_phases(phases), data.lane_count, data.global_batch)
    return tuple(phases)
