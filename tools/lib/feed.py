"""What a training run reads, and in which order: taken from a run directory, or put together from its numbers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

import numpy as np

from pipeline.config import former_names, load_config, validate
from pipeline.errors import ConfigurationError, IntegrityError, StorageError
from pipeline.shards import ShardSet
from tools.lib.command import Arguments, natural, positive, some_path
from tools.lib.run_steps import RunSteps
from train.logs.journal import read_lines
from train.stream.config import DataConfig
from train.stream.mixture import Timeline
from train.stream.online_corruption import OnlineCorruption
from train.stream.order import BlockOrder, LogicalBlocks
from train.stream.phases import DataPhase, distinct_sets, open_phases, phase_plans

__all__ = ["STATES", "VARIANTS", "Feed", "State", "Visit", "add_feed_arguments", "open_feed"]

T = TypeVar("T")
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
        taken: steps that the run has done and samples that it had read by then; None: there is no run.
        corrupt: what becomes of samples in the stream.
        mask: whether rows of blocks that cannot be read are filler, as `data.on_damaged: skip` has it.
    """

    phases: Sequence[DataPhase]
    seed: int
    lanes: int
    global_batch: int
    steps: int | None = None
    taken: Sequence[tuple[int, int]] | None = None
    corrupt: Sequence[OnlineCorruption] = ()
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

    @cached_property
    def run_steps(self) -> RunSteps:
        """The steps of the run, or those that a run would have."""
        return RunSteps(self.timeline, self.taken or ())

    def batch(self, samples: int) -> list[Visit]:
        """The rows of the global batch that begins at a position, in their order.

        Raises:
            ConfigurationError: no batch begins there.
        """
        if samples < 0 or samples % self.lanes:
            raise ConfigurationError(f"--samples {samples}: expected a multiple of the {self.lanes} lanes")
        lanes = np.arange(self.lanes)
        positions = samples // self.lanes + np.arange(self.rows(samples) // self.lanes)
        phase = self.timeline.at(samples // self.lanes, len(positions))
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
                    step = self.run_steps.at(position * self.lanes)
                    ahead = position - step.begin // self.lanes
                    return Visit(step.begin, lane * step.rows // self.lanes + ahead, lane, source, epoch, stored)
        return None

    def epochs(self, source: int, samples: int) -> int:
        """Epochs of a set that have begun before a position of the stream."""
        read, end = 0, samples // self.lanes
        for phase in self.timeline.phases:
            if source in phase.sources and phase.start < end:
                stop = end if phase.stop is None else min(end, phase.stop)
                rows = phase.rows(phase.sources.index(source), np.arange(self.lanes), np.array([stop]))
                read = int(rows.max())
        return -(-read // self.orders[source].lane_rows)

    def online(self, source: int) -> bool:
        """Whether a set holds samples that the stream corrupts; their variant is the epoch modulo `VARIANTS`."""
        return bool(self.corrupt) and self.sets[source].manifest.kind == "samples"

    def rows(self, samples: int) -> int:
        """Rows of the global batch that begins at a position."""
        step = self.run_steps.at(samples)
        return step.rows if step.begin == samples else self.timeline.at(samples // self.lanes).global_batch

    def step(self, samples: int) -> int:
        """The training step, counted from 1, whose batch holds a position."""
        return self.run_steps.at(samples).number

    def samples(self, step: int) -> int:
        """Position at which the batch of a step begins: the inverse of `step`."""
        return self.run_steps.numbered(step).begin

    def state(self, samples: int) -> State:
        """Whether a run has read the global batch at a position, or ever will."""
        if self.taken is None:
            return "unknown"
        if samples + self.rows(samples) <= (self.taken[-1][1] if self.taken else 0):
            return "read"
        return "ahead" if self.steps is None or self.step(samples) <= self.steps else "beyond"

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
    config = load_config(dict[str, Any], path)  # nothing is needed of the rest, for which torch would be loaded
    with former_names():
        data: DataConfig = validate(DataConfig, config.get("data"), str(path), "data.")
    steps: int = validate(int, config.get("steps"), str(path), "steps")
    taken = _recorded(run / "metrics.jsonl", _steps_taken)
    other = _recorded(run / "events.jsonl", _steps_on_other_data)
    if other:
        sys.stderr.write(f"note: {run} read other sets up to step {other:,}; what follows holds from there on\n")
    mask = data.on_damaged == "skip"
    try:
        feed = _of_data(data)
    except StorageError as error:
        raise StorageError(f"{error}; {path} names it, relative to where the run was started") from error
    return replace(feed, steps=steps, taken=taken, corrupt=data.corrupt, mask=mask)


def _recorded(path: Path, what: Callable[[list[dict[str, Any]]], T]) -> T:
    """What the lines of a run's file say."""
    try:
        return what(read_lines(path))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise IntegrityError(f"{path}: expected a JSON object a line, as train/main.py writes it ({error})") from error


def _steps_taken(lines: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Steps done and samples read by then."""
    return [(int(line["step"]), int(line["samples"])) for line in lines if "samples" in line]


def _steps_on_other_data(lines: list[dict[str, Any]]) -> int:
    """Steps done before the run went on with other sets or weights; 0 where it never did."""
    starts = [line for line in lines if line.get("event") == "data"]
    shares = [[phase["shares"] for phase in line["phases"]] for line in starts]
    changed = [
        int(line["step"]) for line, now, before in zip(starts[1:], shares[1:], shares, strict=False) if now != before
    ]
    return max(changed, default=0)


def _of_data(data: DataConfig) -> Feed:
    phases = open_phases(data)
    for shards in distinct_sets(phases):
        if shards.manifest.kind == "tokens":
            raise ConfigurationError(f"{shards.path}: a token set is not streamed; name a set of samples or examples")
    return Feed(phases, data.seed, data.lane_count, data.global_batch)
