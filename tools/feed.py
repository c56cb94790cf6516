"""What a training run reads, and in which order: taken from a run directory, or put together from its numbers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from pipeline.config import load_config
from pipeline.errors import ConfigurationError
from pipeline.shards import ShardSet, open_shards
from tools.command import Arguments, natural, positive
from train.config import DataConfig, TrainConfig
from train.metrics import read_lines
from train.order import BlockOrder, LogicalBlocks

__all__ = ["Feed", "Visit", "add_feed_arguments", "open_feed"]


_OWN: Final = ("seed", "global_batch", "lanes")
"""Keys of `data` that decide the order, and arguments where there is no run."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One time that a row is read.

    Args:
        samples: position of the stream at which its global batch begins.
        place: of the row in that batch.
        lane: that reads it.
        epoch: of the set.
        stored: block, over all shards, and row in it; None: a filler row.
    """

    samples: int
    place: int
    lane: int
    epoch: int
    stored: tuple[int, int] | None


@dataclass(frozen=True)
class Feed:
    """The order in which a set is read.

    Args:
        shards: the set.
        seed: of the order.
        lanes: equal streams of a global batch.
        global_batch: rows of a step.
        steps: length of the run; None: unknown.
        consumed: samples that the run has read so far; None: there is no run.
    """

    shards: ShardSet
    seed: int
    lanes: int
    global_batch: int
    steps: int | None = None
    consumed: int | None = None

    @cached_property
    def order(self) -> BlockOrder:
        """The order, in closed form."""
        manifest = self.shards.manifest
        return BlockOrder(manifest.name, len(self.shards), manifest.block_rows, self.seed, self.lanes)

    @cached_property
    def blocks(self) -> LogicalBlocks:
        """The blocks that the order speaks of."""
        return LogicalBlocks(self.shards.index.rows, self.shards.manifest.block_rows)

    def batch(self, samples: int) -> list[Visit]:
        """The rows of the global batch that begins at a position, in their order.

        Raises:
            ConfigurationError: no batch begins there.
        """
        if samples < 0 or samples % self.lanes:
            raise ConfigurationError(f"--samples {samples}: expected a multiple of the {self.lanes} lanes")
        return [self._visit(samples, place) for place in range(self.global_batch)]

    def _visit(self, samples: int, place: int) -> Visit:
        lane, ahead = divmod(place, self.global_batch // self.lanes)
        position = samples // self.lanes + ahead
        found = self.order.row(lane, position)
        if found is None:
            return Visit(samples, place, lane, position // self.order.lane_rows, None)
        epoch, logical, row = found
        blocks, rows = self.blocks.stored(logical)
        return Visit(samples, place, lane, epoch, (int(blocks[row]), int(rows[row])))

    def visit(self, block: int, row: int, epoch: int) -> Visit:
        """When a stored row is read in an epoch; batches are counted from the beginning of the stream."""
        lane, position = self.order.where(*self.blocks.logical(block, row), epoch)
        share = self.global_batch // self.lanes
        step, ahead = divmod(position, share)
        return Visit(step * self.global_batch, lane * share + ahead, lane, epoch, (block, row))

    def step(self, samples: int) -> int:
        """The training step, counted from 1, whose batch holds this position."""
        return samples // self.global_batch + 1


def add_feed_arguments(parser: Arguments) -> None:
    """Arguments that name a run, or a set and how it is read."""
    parser.add_argument("manifest", type=Path, nargs="?", help="manifest.json of a shard set, or its folder")
    parser.add_argument("--run", type=Path, metavar="DIR", help="a run directory of train/main.py instead of a set")
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
    lines = [line for line in read_lines(run / "metrics.jsonl") if "samples" in line]
    consumed = int(lines[-1]["samples"]) if lines else 0
    return replace(_of_data(config.data), steps=config.steps, consumed=consumed)


def _of_data(data: DataConfig) -> Feed:
    return Feed(open_shards(data.shards), data.seed, data.lane_count, data.global_batch)
