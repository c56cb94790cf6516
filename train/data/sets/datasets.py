"""Open the shard sets of a run, and check that shards, heads and model fit together."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clozeline.configuration.paths import as_url
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.capabilities import EVALUATIONS
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.shards import Manifest, ShardSet, open_shards
from clozeline.pipeline.shards.manifest import folders_beside
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.configuration.data import DataConfig
from clozeline.train.configuration.parts import parts_of
from clozeline.train.data.sets.model_fit import (
    find_targets,
    refuse_missing,
    refuse_unfit_heads,
    refuse_unread,
    refuse_unreadable,
)
from clozeline.train.data.sets.token_ids import KnownIds, refuse_other_ids
from clozeline.train.data.stream.collate import Collate
from clozeline.train.data.stream.mixture import Phase
from clozeline.train.data.stream.online_corruption import Corruption, corruption_of
from clozeline.train.data.stream.phases import Input, describe, distinct_sets, open_phases
from clozeline.train.data.stream.stream import Stream


@dataclass(frozen=True)
class Datasets:
    """Training and held-out sets of a run, checked against its model."""

    phases: tuple[Phase[Input], ...]
    """phases of the training stream"""
    heldout: dict[str, ShardSet]
    corruptions: dict[str, Corruption | None]
    """online corruption of each held-out set, by name"""

    @property
    def train(self) -> ShardSet:
        """The first training set."""
        return self.phases[0].sources[0].shards

    @property
    def rows(self) -> int:
        """Rows of all training sets."""
        return sum(len(shards) for shards in distinct_sets(self.phases))

    def heldout_phase(self, name: str) -> Phase[Input]:
        """Return a held-out set as a phase of a stream."""
        return Phase((Input(self.heldout[name], self.corruptions[name]),))

    def check_files(self, rank: int, local_rank: int) -> None:
        """Check that the files of all sets exist, on one rank of each machine.

        Sets in a store are checked by the first rank alone. 512 ranks together would ask a file
        system half a billion times about a million shards.
        """
        for shards in (*distinct_sets(self.phases), *self.heldout.values()):
            if (rank if shards.is_remote else local_rank) == 0:
                shards.check_files()

    @property
    def description(self) -> str:
        """Description of the training data, as checkpoints store it."""
        return describe(self.phases)

    @property
    def heldout_digests(self) -> dict[str, str]:
        """Digest of each held-out set, by name."""
        return {name: shards.digest for name, shards in self.heldout.items()}


def open_datasets(config: TrainConfig, *, check_files: bool = True) -> Datasets:
    """Open the training sets and the held-out sets; check that they fit the model and each other.

    Without `check_files`, call `Datasets.check_files` afterwards.
    """
    # training sets: each must fit the model, and together they must serve all heads
    data = config.data
    model = config.model
    phases = open_phases(data, check_files=check_files)
    served: set[str] = set()

    for (key, phase), opened in zip(data.all_phases.items(), phases, strict=True):
        # in a mixture with samples, a set of examples is not corrupted: causal rows do not change
        corrupted = bool(phase.corrupt or data.corrupt) and not any(
            source.corruption for source in opened.sources
        )
        for path, source in zip(phase.sets, opened.sources, strict=True):
            set_key = key if len(opened.sources) == 1 else f"{key} ({path})"
            served |= _check_set(source, config, set_key, corrupted)

    train = phases[0].sources[0].shards
    for shards in (source.shards for opened in phases for source in opened.sources):
        refuse_other_ids(KnownIds.of_set(train), shards, "data.shards")

    if missing := sorted(name for name, target in model.targets.items() if target not in served):
        raise ConfigurationError(
            f"model.heads: {missing[0]} cannot be trained on {train.path}: the training sets have "
            f"labels for {', '.join(sorted(served))} only"
        )

    for added in config.parts():
        added.check_sets(config, [source.shards for phase in phases for source in phase.sources])

    # held-out sets: each must have what every head reads, and the tokenizer of the training set
    paths = {} if config.evaluate.max_rows == 0 else heldout_paths(data)
    heldout = {
        name: open_shards(path, options=data.store, check_files=check_files)
        for name, path in paths.items()
    }
    for part in () if heldout else parts_of(config):
        if EVALUATIONS in part.needs:
            raise ConfigurationError(
                f"{part.key}: needs a held-out set, and none was found next to {train.path}: set "
                "data.heldout"
            )

    corruptions = {}

    for name, shards in heldout.items():
        key = f"data.heldout ({name})"
        entries = data.corrupt or next(iter(data.all_phases.values())).corrupt
        corrupted = bool(entries) and shards.manifest.kind == "samples"
        corruptions[name] = corruption_of(entries, shards) if corrupted else None
        source = Input(shards, corruptions[name])
        _check_set(source, config, key, corrupted)
        refuse_missing(Collate.from_manifest(source.manifest), model, f"{key}: {shards.path}")
        refuse_other_ids(KnownIds.of_set(train), shards, key)

    # batches of a mixture have the columns of all its sets
    manifests = [source.manifest for phase in phases for source in phase.sources]
    refuse_missing(Collate.from_manifests(manifests), model, "data")
    return Datasets(phases, heldout, corruptions)


def open_stream(data: DataConfig, phases: Sequence[Phase[Input]], rank: int, size: int) -> Stream:
    """Open a rank's stream over training or held-out sets."""
    return Stream(
        phases,
        rank=rank,
        world_size=size,
        lanes=data.lane_count,
        seed=data.seed,
        global_batch=data.global_batch,
        micro_batch=data.micro_batch,
        io_threads=data.io_threads,
        prefetch_blocks=data.prefetch_blocks,
        memory_bytes=data.memory_bytes,
        by_length=data.length_buckets,
        max_damaged_fraction=data.max_damaged_fraction,
    )


def heldout_paths(data: DataConfig) -> dict[str, Path]:
    """Return the held-out sets by name: as configured, or found next to the first training set."""
    configured = data.heldout
    if isinstance(configured, dict):
        return configured
    if configured is not None:
        return {"heldout": configured}
    if as_url(data.first_set) is not None:
        return {}
    found: dict[str, Path] = {}
    for siblings in folders_beside(data.first_set):
        # `lexists`: a broken link is refused when it is opened, not ignored
        found = found or {
            folder.name: path
            for folder in sorted([*siblings.glob("heldout"), *siblings.glob("dev*")])
            if os.path.lexists(path := folder / "manifest.json")
        }
    return found


def _check_set(source: Input, config: TrainConfig, key: str, corrupted: bool) -> set[str]:
    """Check that a set fits the model; return the heads that its objective serves."""
    shards = source.shards
    manifest = source.manifest
    model = config.model
    # samples need an objective, examples have one
    if corrupted and source.corruption is None:
        raise ConfigurationError(
            f"{key}: {shards.path} holds {manifest.kind}, data.corrupt needs samples: name a set "
            "below group/"
        )

    objective = manifest.objective
    if manifest.kind != "examples" or objective is None:
        remedy = "run `clozeline corrupt` on it"
        if manifest.kind == "samples":
            remedy += ", or set data.corrupt"
        raise ConfigurationError(
            f"{key}: {shards.path} holds {manifest.kind}, expected examples: {remedy}"
        )

    # architecture and heads
    if objective.architecture != model.architecture:
        raise ConfigurationError(
            f"model.family: {model.family} ({model.architecture}) cannot be trained on "
            f"{shards.path}, whose objective {objective.name} is for the architecture "
            f"{objective.architecture}"
        )

    # units of the loss
    by_row = [name for name, head in model.heads.items() if head.normalize == "row"]
    weights = [name for name, role in manifest.roles.items() if role.use == "weight"]
    if by_row and weights:
        raise ConfigurationError(
            f"model.heads.{by_row[0]}.normalize: row would mix two units, because {shards.path} "
            f"has {weights[0]} per label: set it to label, or train on objectives without weights"
        )

    # columns, lengths and languages
    where = f"{key}: {shards.path}"
    collate = Collate.from_manifest(manifest)
    refuse_unfit_heads(manifest, model, where)
    read = {name for added in config.parts() for name in added.reads}
    refuse_unread(manifest, model, config.data.ignore, where, read)
    refuse_unreadable(collate, model, where)
    for added in config.parts():
        added.check_rows(where, collate.tensor_names)

    several = "choice_starts" in manifest.roles  # each choice is a separate row
    longest = (several and objective.frame.longest_input) or manifest.max_length

    check_length(longest, model, shards.path)
    check_languages(manifest, model.languages, shards.path)
    return find_targets(manifest, model)


def check_length(longest: int, model: ModelConfig, path: Path) -> None:
    """Check that a model has enough positions for the rows of a set."""
    limit = model.position_limit
    table = model.position.limit
    if limit is not None and table is not None and longest > limit:
        adapter_note = (
            f" in addition to the {table - limit} of its adapter" if table > limit else ""
        )
        raise ConfigurationError(
            f"model.position.maximum: rows of {path} have up to {longest} tokens, the model has "
            f"{limit} positions{adapter_note}; set it to {longest + table - limit} or group into "
            "shorter rows"
        )


def check_languages(manifest: Manifest, embeddings: int, path: Path) -> None:
    """Check that a model has a language embedding for every language of a set."""
    if not embeddings:
        return
    if "languages" not in manifest.roles:
        raise ConfigurationError(
            f"model.languages: rows of {path} store no languages: corrupt with languages: true, or "
            "set it to 0"
        )

    if (languages := len(manifest.languages)) > embeddings:
        raise ConfigurationError(
            f"model.languages: {path} has {languages} languages ({', '.join(manifest.languages)}), "
            f"the model {embeddings} embeddings; set it to {languages}"
        )
