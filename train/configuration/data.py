"""Configuration of the data: training and held-out sets, phases, batches, loading."""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer

from clozeline.configuration.config import HOME_EXPANDED, MayChange, Natural, Positive, config_class
from clozeline.configuration.described_keys import Common
from clozeline.configuration.paths import UserPath, as_url
from clozeline.pipeline.block_options import StoreOptions
from clozeline.pipeline.corrupt.config import NamedObjective, inline_options

OnlineEntries: TypeAlias = Annotated[
    list[Annotated[NamedObjective, inline_options(NamedObjective)]],
    BeforeValidator(
        lambda value: value if isinstance(value, list) else [] if value is None else [value]
    ),
]
"""The configuration's key `data.corrupt`."""


_MAX_AUTO_LANES: Final = 64


def default_lanes(*global_batches: int, most: int = _MAX_AUTO_LANES) -> int:
    """Return the default number of lanes: the greatest common divisor of `most` and all batches."""
    return gcd(most, *global_batches)


def _as_given(value: Any) -> Any:
    if isinstance(value, SetWithColumns):
        return {"path": _as_given(value.path), "columns": _as_given(value.columns)}
    if isinstance(value, dict):
        return {name: _as_given(path) for name, path in value.items()}
    if isinstance(value, list):
        return [_as_given(path) for path in value]
    return value if value is None else as_url(value) or str(value)


_AS_GIVEN: Final = PlainSerializer(_as_given)


@config_class
class SetWithColumns:
    """A training set and further columns of its rows."""

    path: Annotated[UserPath, _AS_GIVEN]
    """manifest.json of the set, or its folder"""
    columns: Annotated[list[Path], HOME_EXPANDED, _AS_GIVEN] = Field(default_factory=list)
    """column sets of it, such as scores of a teacher: manifest.json, or folders"""


TrainingSet: TypeAlias = Path | SetWithColumns


@config_class
class PhaseConfig:
    """One phase of the data."""

    shards: Annotated[TrainingSet | list[TrainingSet], HOME_EXPANDED, _AS_GIVEN]
    """manifest.json of a training set, or its folder; several are mixed; {path: SET, columns:
    [SET2]} adds columns"""
    weights: list[Annotated[float, Field(gt=0.0)]] = Field(default_factory=list)
    """share of each set in every global batch, filler rows included; default: equal ones"""
    share: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """share of the schedule's steps that the phase takes, such as 0.9; the last phase takes the
    rest"""
    until_samples: Positive | None = None
    """instead of `share`: samples of the run after which the phase ends, a multiple of the global
    batches before and after"""
    global_batch: Positive | None = None
    """rows of one optimizer step in this phase; default: data.global_batch"""
    learning_rate: Annotated[float, Field(gt=0.0)] | None = None
    """peak learning rate of the schedule in this phase; default: optimizer.learning_rate"""
    corrupt: OnlineEntries = Field(default_factory=list)
    """objective that corrupts the samples of this phase, for example with a lower mask_rate;
    default: data.corrupt"""

    def __post_init__(self) -> None:
        if self.share is not None and self.until_samples is not None:
            raise ValueError("expected share or until_samples, got both")

    @property
    def sets(self) -> list[Path]:
        """Its sets as a list."""
        return [entry if isinstance(entry, Path) else entry.path for entry in self._entries]

    @property
    def columns(self) -> list[tuple[Path, ...]]:
        """The column sets of each set."""
        return [() if isinstance(entry, Path) else tuple(entry.columns) for entry in self._entries]

    @property
    def _entries(self) -> list[TrainingSet]:
        return self.shards if isinstance(self.shards, list) else [self.shards]


@config_class
class DataConfig:
    """Data of a run."""

    folder: MayChange[UserPath | None] = None
    """folder that other keys may refer to: `shards: "${data.folder}/short/train"`"""
    shards: Annotated[
        MayChange[Annotated[TrainingSet | list[TrainingSet] | None, HOME_EXPANDED, _AS_GIVEN]],
        Common(),
    ] = None
    """manifest.json of the training set, or its folder; several are mixed; {path: SET, columns:
    [SET2]} adds columns, such as scores of a teacher; this or `phases`"""
    weights: MayChange[list[Annotated[float, Field(gt=0.0)]]] = Field(default_factory=list)
    """share of each of several `shards` in every global batch, filler rows included; default: equal
    ones"""
    phases: MayChange[list[PhaseConfig]] = Field(default_factory=list)
    """sets that follow one another, such as short rows for 90 % of the steps and then long ones:
    [{shards: short/train, share: 0.9}, {shards: long/train}]"""
    corrupt: Annotated[MayChange[OnlineEntries], Common()] = Field(default_factory=list)
    """objective that corrupts sample sets while they are read: {name: masked_lm, ...}; variant =
    epoch; a list where sets differ in their grouping, such as short rows and then long ones: each
    set gets the one that reads it"""
    ignore: MayChange[list[str]] = Field(default_factory=list)
    """columns of the sets, and heads of their objectives, that this run ignores on purpose:
    [sentence_label]"""
    heldout: Annotated[
        MayChange[Annotated[Path | dict[str, Path] | None, HOME_EXPANDED, _AS_GIVEN]], Common()
    ] = None
    """held-out set, or several by name; default: `../heldout/manifest.json` next to the first
    training set, if it exists, and `../dev*/manifest.json` of a task; none for URLs"""
    global_batch: Annotated[Positive, Common()] = 64
    """rows of one optimizer step, over all ranks and micro-batches"""
    batch_tokens: Positive | None = None
    """minimum of real tokens of one optimizer step, over all ranks: batches of `global_batch` rows
    are joined until a step has as many; null: one batch"""
    micro_batch: Annotated[MayChange[Positive], Common()] = 8
    """rows of one forward pass on one rank, at most its rows of a step; changes a result by
    rounding only, but with dropout by other masks, which are drawn for a micro-batch, and with
    `model.position.scaling` dynamic or longrope by other angles, which follow its longest row"""
    lanes: Positive | None = None
    """equal streams that make up a global batch, a divisor of it and a multiple of the world size;
    part of the order; default: the greatest common divisor of `max_lanes` and global_batch, with
    those of all phases"""
    max_lanes: MayChange[Positive] = _MAX_AUTO_LANES
    """most lanes where `lanes` is not set"""
    seed: Annotated[Natural, Common()] = 0
    """seed of the order of blocks and rows"""
    io_threads: MayChange[Natural] = 2
    """threads that read, check and unpack blocks, eight times as many if a set is in a store; 0
    reads in the training thread"""
    prefetch_blocks: MayChange[Natural] = 1
    """blocks read ahead for each lane; more if a set is in a store and the rank has few lanes"""
    memory_bytes: MayChange[Positive] = 8 << 30
    """bytes that loaded rows may take on one rank; where many lanes on few ranks need more, blocks
    are read several times, a part of their rows each time"""
    length_buckets: MayChange[bool] = False
    """sort a rank's rows of a global batch by length, so that micro-batches need less padding;
    changes results as `micro_batch` does"""
    label_capacity: MayChange[Positive | None] = None
    """pad the labels of a micro-batch to this number, so that `compile: true` compiles the heads,
    too; a fuller micro-batch is padded to the next multiple, compiled once; default: no padding"""
    max_damaged_fraction: MayChange[Annotated[float, Field(ge=0.0, le=1.0)]] = 0.0
    """share of a set's blocks that may be unreadable: their rows become filler rows and no other
    row moves; beyond it the run ends. 0: the first unreadable block ends it"""
    store: MayChange[StoreOptions] = StoreOptions()
    """options for reading sets whose path is a URL: {retries, timeout_s, fsspec}"""

    def __post_init__(self) -> None:
        if (self.shards is None) == (not self.phases):
            remedy = "keep one of them"
            if self.shards is None:
                remedy = (
                    "give the sets of a pipeline's output, "
                    "data.shards=OUTPUT/corrupt/masked_lm/train/manifest.json"
                )
            raise ValueError(
                "data: expected shards or phases, got "
                f"{'neither' if self.shards is None else 'both'}: {remedy}"
            )

        if self.weights and self.phases:
            raise ValueError(
                "data.weights: belong to data.shards; with data.phases, set the weights of each "
                "phase"
            )

        # phases and their shares
        if self.phases and self.phases[-1].share is not None:
            raise ValueError(
                "data.phases: the last phase takes the remaining steps: remove its share"
            )

        if sum(shares := self.shares) >= 1.0:
            raise ValueError(
                "data.phases: expected shares that leave some steps to the last phase, got "
                f"{shares}"
            )

        if shares and self.batch_tokens is not None:
            raise ValueError(
                "data.batch_tokens: the samples of a share of the steps are not known: use "
                "until_samples"
            )

    @property
    def shares(self) -> list[float]:
        """The shares of phases that have one."""
        return [phase.share for phase in self.phases if phase.share is not None]

    def with_ends(self, steps: int) -> DataConfig:
        """Return the data with `until_samples` for each `share` of `steps`; drop empty phases."""
        phases = []
        samples = 0
        done = 0
        passed = 0.0

        for phase in self.phases:
            batch = phase.global_batch or self.global_batch
            if phase.share is not None:
                passed += phase.share * steps
                phase = replace(
                    phase, share=None, until_samples=samples + (round(passed) - done) * batch
                )
            elif phase.until_samples is not None:
                passed += (phase.until_samples - samples) / batch
            if phase.until_samples != samples:
                phases.append(phase)
            samples = phase.until_samples or samples
            done = round(passed)

        return replace(self, phases=phases, lanes=self.lane_count)

    def learning_rate_at(self, samples: int) -> float | None:
        """Return the peak learning rate after `samples` samples; None: the optimizer's."""
        remaining = (
            phase
            for phase in self.phases
            if phase.until_samples is None or phase.until_samples > samples
        )
        return next((phase.learning_rate for phase in remaining), None)

    @property
    def all_phases(self) -> dict[str, PhaseConfig]:
        """The phases by the key that names them; `shards` alone is one endless phase."""
        if self.shards is not None:
            return {"data.shards": PhaseConfig(shards=self.shards, weights=self.weights)}
        return {f"data.phases[{number}].shards": phase for number, phase in enumerate(self.phases)}

    @property
    def first_set(self) -> Path:
        """The first training set."""
        return next(iter(self.all_phases.values())).sets[0]

    @property
    def lane_count(self) -> int:
        """Lanes, with the default filled in."""
        batches = (phase.global_batch for phase in self.phases if phase.global_batch is not None)
        return self.lanes or default_lanes(self.global_batch, *batches, most=self.max_lanes)
