"""What a training run reads, and in which order: taken from a run directory, or put together from its numbers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np

from pipeline.config import load_config
from pipeline.errors import ConfigurationError, IntegrityError, StorageError
from pipeline.shards import ShardSet
from tools.command import Arguments, natural, positive, some_path
from train.config import DataConfig, TrainConfig
from train.datasets import open_phases
from train.metrics import read_lines
from train.mixture import Phase, Timeline
from train.online import OnlineCorruption
from train.order import BlockOrder, LogicalBlocks
from train.phases import DataPhase, distinct_sets, phase_plans

__all__ = ["STATES", "VARIANTS", "Feed", "State", "Visit", "add_feed_arguments", "open_feed"]

State: TypeAlias = Literal["unknown", "read", "ahead", "beyond"]
STATES: Final[dict[State, str]] = {
    "unknown": "", "read": ", read already", "ahead": ", not read yet", "beyond": ", after the run's last step",
}  # fmt: skip
"""What to say of a position of a run."""


_OWN: Final = ("seed", "global_batch", "lanes")
"""Keys of `data` that decide the order, and arguments where there is no run."""


VARIANTS: Final = 1 << 16
"""Variants of a sample that is corrupted in the stream."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One time that a row is read.

    Args:
        samples: position of the stream at which its global batch begins.
        place: of the row in that batch.
        lane: that reads it.
        source: number of its set.
        epoch: of the set.
        stored: block, over all shards, and row in it; None: a filler row.
    """

    samples: int
    place: int
    lane: int
    source: int
    epoch: int
    stored: tuple[int, int] | None


@dataclass(frozen=True)
class Feed:
    """The order in which sets are read.

    Args:
        phases: what is read until when.
        seed: of the order.
        lanes: equal streams of a global batch.
        global_batch: rows of a step where a phase does not say.
        steps: length of the run; None: unknown.
        consumed: samples that the run has read so far; None: there is no run.
        corrupt: what becomes of samples in the stream.
        mask: whether rows of blocks that cannot be read are filler, as `data.on_corrupt: mask` has it.
    """

    phases: Sequence[DataPhase]
    seed: int
    lanes: int
    global_batch: int
    steps: int | None = None
    consumed: int | None = None
    corrupt: OnlineCorruption | None = None
    mask: bool = False

    @cached_property
    def sets(self) -> list[ShardSet]:
        """The sets by source number."""
        return distinct_sets(self.phases)

    @cached_property
    def orders(self) -> list[BlockOrder]:
        """The order of each set."""
        return [
            BlockOrder(one.manifest.name, len(one), one.manifest.block_rows, self.seed, self.lanes) for one in self.sets
        ]

    @cached_property
    def timeline(self) -> Timeline:
        """The phases in closed form."""
        return Timeline(phase_plans(self.phases), self.lanes, self.global_batch)

    def batch(self, samples: int) -> list[Visit]:
        """The rows of the global batch that begins at a position, in their order.

        Raises:
            ConfigurationError: no batch begins there.
        """
        if samples < 0 or samples % self.lanes:
            raise ConfigurationError(f"--samples {samples}: expected a multiple of the {self.lanes} lanes")
        phase = self.timeline.at(samples // self.lanes)
        lanes = np.arange(self.lanes)
        positions = samples // self.lanes + np.arange(self.share(phase))
        drawn = phase.drawn(lanes, positions)
        rows = np.zeros_like(drawn)
        for k in range(len(phase.sources)):
            rows = np.where(drawn == k, phase.rows(k, lanes, positions), rows)
        return [
            self._visit(samples, place, place // len(positions), phase.sources[k], row)
            for place, (k, row) in enumerate(zip(drawn.ravel().tolist(), rows.ravel().tolist(), strict=True))
        ]

    def _visit(self, samples: int, place: int, lane: int, source: int, lane_row: int) -> Visit:
        order = self.orders[source]
        found = order.row(lane, lane_row)
        if found is None:
            return Visit(samples, place, lane, source, lane_row // order.lane_rows, None)
        epoch, logical, row = found
        blocks, rows = self._blocks[source].stored(logical, np.array([row]))
        return Visit(samples, place, lane, source, epoch, (int(blocks[0]), int(rows[0])))

    def visit(self, source: int, stored: tuple[int, int], epoch: int) -> Visit | None:
        """When a stored row of a set is read in an epoch; None: the phases end before."""
        lane, lane_row = self.orders[source].where(*self._blocks[source].logical(*stored), epoch)
        for phase in self.timeline.phases:
            if source in phase.sources:
                position = phase.position(phase.sources.index(source), lane, lane_row)
                if position is not None:
                    share = self.share(phase)
                    batch, ahead = divmod(position - phase.start, share)
                    samples = (phase.start + batch * share) * self.lanes
                    return Visit(samples, lane * share + ahead, lane, source, epoch, stored)
        return None

    def online(self, source: int) -> bool:
        """Whether a set holds samples that the stream corrupts; their variant is the epoch modulo `VARIANTS`."""
        return self.corrupt is not None and self.sets[source].manifest.kind == "samples"

    def rows(self, samples: int) -> int:
        """Rows of the global batch at a position."""
        return self.share(self.timeline.at(samples // self.lanes)) * self.lanes

    def step(self, samples: int) -> int:
        """The training step, counted from 1, whose batch holds a position."""
        done, phase = 0, self.timeline.at(samples // self.lanes)
        for earlier in self.timeline.phases[: self.timeline.phases.index(phase)]:
            done += ((earlier.stop or 0) - earlier.start) // self.share(earlier)
        return done + (samples // self.lanes - phase.start) // self.share(phase) + 1

    def samples(self, step: int) -> int:
        """Position at which the batch of a step begins: the inverse of `step`."""
        left = step - 1
        for phase in self.timeline.phases:
            share = self.share(phase)
            if phase.stop is None or left < (phase.stop - phase.start) // share:
                return (phase.start + left * share) * self.lanes
            left -= (phase.stop - phase.start) // share
        raise AssertionError("the last phase has no end")

    def state(self, samples: int) -> State:
        """Whether a run has read the global batch at a position, or ever will."""
        if self.consumed is None:
            return "unknown"
        if samples + self.rows(samples) <= self.consumed:
            return "read"
        return "ahead" if self.steps is None or self.step(samples) <= self.steps else "beyond"

    def share(self, phase: Phase) -> int:
        """Rows of each lane in a global batch."""
        return (phase.global_batch or self.global_batch) // self.lanes

    @cached_property
    def _blocks(self) -> list[LogicalBlocks]:
        return [LogicalBlocks(shards.index.rows, shards.manifest.block_rows) for shards in self.sets]


def add_feed_arguments(parser: Arguments) -> None:
    """Arguments that name a run, or a set and how it is read."""
    parser.add_argument("manifest", type=some_path, nargs="?", help="manifest.json of a shard set, or its folder")
    parser.add_argument("--run", type=some_path, metavar="DIR", help="a run of train/main.py instead of a set")
    parser.add_argument("--seed", type=natural, help="data.seed of the run (0)")
    parser.add_argument("--global-batch", type=positive, metavar="G", help="data.global_batch of the run (64)")
    parser.add_argument("--lanes", type=positive, metavar="L", help="data.lanes of the run (gcd(64, G))")


def open_feed(options: argparse.Namespace) -> Feed:
    """The feed that the arguments name.

    Raises:
        ConfigurationError: they name none or two, or the numbers do not fit each other.
        ClozelineError: the set cannot be opened.
    """
    if (options.run is None) == (options.manifest is None):
        raise ConfigurationError("expected a MANIFEST or --run DIR, one of them; see --help")
    if options.run is not None:
        _refuse(options, _OWN)
        return _of_run(options.run)
    given = {name: getattr(options, name) for name in _OWN if getattr(options, name) is not None}
    data = DataConfig(shards=options.manifest, **given)
    if data.global_batch % data.lane_count:
        raise ConfigurationError(f"--lanes {data.lanes}: expected a divisor of the global batch {data.global_batch}")
    return _of_data(data)


def _refuse(options: argparse.Namespace, names: Sequence[str]) -> None:
    for name in names:
        if getattr(options, name) is not None:
            raise ConfigurationError(f"--{name.replace('_', '-')}: the run's own value is taken; leave it out")


def _of_run(run: Path) -> Feed:
    path = run / "config.yaml"
    if not path.is_file():
        raise ConfigurationError(f"--run {run}: expected a run directory with config.yaml")
    config = load_config(TrainConfig, path)
    data, consumed = config.data, _consumed(run / "metrics.jsonl")
    mask = data.on_corrupt == "mask"
    try:
        feed = _of_data(data)
    except StorageError as error:
        raise StorageError(f"{error}; {path} names it, relative to where the run was started") from error
    return replace(feed, steps=config.steps, consumed=consumed, corrupt=data.corrupt, mask=mask)


def _consumed(path: Path) -> int:
    """Samples that a run has read by its last line."""
    try:
        return max((int(line["samples"]) for line in read_lines(path) if "samples" in line), default=0)
    except (ValueError, TypeError) as error:
        raise IntegrityError(f"{path}: expected a JSON object a line, as train/main.py writes it ({error})") from error


def _of_data(data: DataConfig) -> Feed:
    phases = open_phases(data)
    for shards in distinct_sets(phases):
        if shards.manifest.kind == "tokens":
            raise ConfigurationError(f"{shards.path}: a token set is not streamed; name a set of samples or examples")
    return Feed(phases, data.seed, data.lane_count, data.global_batch)
