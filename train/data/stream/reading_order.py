"""Locate every row of a stream in closed form, without reading a block."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import NamedTuple

import numpy as np

from clozeline.arrays import Int64
from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import ShardSet
from clozeline.train.data.stream.mixture import Phase, PhaseSpan, SourceKey, Timeline
from clozeline.train.data.stream.order import BlockOrder, LogicalBlocks
from clozeline.train.data.stream.phases import (
    Input,
    continue_phases,
    distinct_inputs,
    key_phases,
    set_labels,
)


class RowRead(NamedTuple):
    """One read of a row."""

    source: int
    lane: int
    position: int
    """lane row of the stream"""
    epoch: int
    """epoch of the set"""
    stored: tuple[int, int] | None
    """(block over all shards, row in it); None: a filler row"""


class ReadingOrder:
    """The order in which a stream reads the rows of its sets."""

    def __init__(
        self, phases: Sequence[Phase[Input]], seed: int, lanes: int, global_batch: int
    ) -> None:
        inputs = distinct_inputs(phases)
        self.keys = list(inputs)
        self.inputs = list(inputs.values())
        self.lanes = lanes
        self.global_batch = global_batch
        self.orders = [
            BlockOrder(key.name, key.rows, key.block_rows, seed, lanes) for key in self.keys
        ]
        self.phases = key_phases(phases)
        """Phases as states store them."""
        self.timeline = Timeline(self.phases, lanes, global_batch)

    @property
    def sets(self) -> list[ShardSet]:
        """The set of each source."""
        return [source.shards for source in self.inputs]

    @cached_property
    def blocks(self) -> list[LogicalBlocks]:
        """Logical blocks of each source."""
        return [
            LogicalBlocks(shards.index.rows, shards.manifest.block_rows) for shards in self.sets
        ]

    def continue_from(self, saved: Sequence[Phase[SourceKey]], samples: int) -> ReadingOrder:
        """Return the order of a stream that read `samples` of `saved`, and continues with these."""
        new = copy(self)
        new.phases = continue_phases(saved, self.phases, samples)
        new.timeline = Timeline(new.phases, self.lanes, self.global_batch, read=samples)
        return new

    def number(self, key: SourceKey) -> int | None:
        """Return the index of a source; None if only an earlier phase read it, before a resume."""
        return self._numbers.get(key)

    def names(self, span: PhaseSpan) -> list[str]:
        """Return the names of a span's sources, with digests if names repeat."""
        labels = set_labels(self.sets)
        names = [key.name for key in span.sources]
        opened = [self.number(key) for key in span.sources]
        return [
            name if number is None else labels[number]
            for name, number in zip(names, opened, strict=True)
        ]

    def shares(self, span: PhaseSpan, drawn: Sequence[int] = ()) -> dict[str, float]:
        """Return the share of each source in the real rows of a span, by name; see `row_shares`."""
        rows = [key.rows for key in span.sources]
        shares = span.mixture.row_shares(rows, self.lanes, drawn)
        return dict(zip(self.names(span), shares, strict=True))

    def span_at(self, position: int, count: int = 1) -> PhaseSpan:
        """Return the span of `count` lane rows from a position on.

        Raises:
            ConfigurationError: the rows belong to two phases, or to a set that is not configured.
        """
        span = self.timeline.at(position, count)
        if not self._numbers.keys() >= set(span.sources):
            named_sources = zip(span.sources, self.names(span), strict=True)
            absent = [name for key, name in named_sources if key not in self.keys]
            raise ConfigurationError(
                f"the batch at {position * self.lanes} samples was read from {', '.join(absent)}, "
                "which the configuration no longer names"
            )
        return span

    def cells(self, position: int, count: int) -> tuple[Int64, Int64]:
        """Return the source and lane row in each cell, both [lanes, count]."""
        span = self.span_at(position, count)
        lanes = np.arange(self.lanes)
        positions = np.arange(position, position + count)
        drawn = span.draw_sources(lanes, positions)
        rows = np.empty_like(drawn)
        for k in np.unique(drawn).tolist():
            mine = drawn == k
            rows[mine] = span.rows(k, lanes, positions)[mine]
        return np.array([self._numbers[key] for key in span.sources])[drawn], rows

    def origins(self, position: int, count: int) -> Int64:
        """Return (source, stored block, row) of each row of a global batch; -1 for filler.

        The shape is [lanes x count, 3].
        """
        sources, rows = self.cells(position, count)
        origin = np.full((self.lanes, count, 3), -1, np.int64)
        for source in np.unique(sources).tolist():
            lane, at = np.nonzero(sources == source)
            origin[lane, at] = self._origins(source, lane, rows[lane, at], count)
        return origin.reshape(-1, 3)

    def row_reads(self, position: int, count: int) -> list[RowRead]:
        """Return the rows of a global batch in order, with epochs."""
        sources, rows = (cells.ravel().tolist() for cells in self.cells(position, count))
        block_rows = self.origins(position, count)[:, 1:].tolist()
        row_reads = []
        for index, (source, row, (block, number)) in enumerate(
            zip(sources, rows, block_rows, strict=True)
        ):
            epoch = row // self.orders[source].lane_rows
            at = None if block < 0 else (block, number)
            row_reads.append(RowRead(source, index // count, position + index % count, epoch, at))
        return row_reads

    def find(self, source: int, stored: tuple[int, int], epoch: int) -> RowRead | None:
        """Return the read of a stored row in an epoch; None if the phases end before it."""
        key = self.keys[source]
        lane, lane_row = self.orders[source].where(*self.blocks[source].to_logical(*stored), epoch)
        for span in self.timeline.spans:
            k = span.index_of(key)
            if k is not None and (position := span.position(k, lane, lane_row)) is not None:
                number = self.number(span.sources[k])
                return RowRead(source if number is None else number, lane, position, epoch, stored)
        return None

    def epochs(self, source: int, position: int) -> int:
        """Return how many epochs of a set have started before a position."""
        read = 0
        for span in self.timeline.spans:
            if (k := span.index_of(self.keys[source])) is not None and span.start < position:
                stop = position if span.stop is None else min(position, span.stop)
                read = int(span.rows(k, np.arange(self.lanes), np.array([stop])).max())
        return -(-read // self.orders[source].lane_rows)

    @cached_property
    def _numbers(self) -> dict[SourceKey, int]:
        return {key: number for number, key in enumerate(self.keys)}

    def _origins(self, source: int, lane: Int64, rows: Int64, limit: int) -> Int64:
        """Return the origins of lane rows, from tables of at most `limit` lane rows."""
        order = self.orders[source]
        blocks = self.blocks[source]
        origin = np.full((len(rows), 3), -1, np.int64)
        remaining = np.ones(len(rows), np.bool_)
        while remaining.any():
            round_ = order.round_at(int(rows[remaining].min()), limit)
            here = remaining & (rows < round_.start + round_.length)
            table = np.full((self.lanes * round_.length, 3), -1, np.int64)
            for load in order.loads(round_, 0, self.lanes):
                stored, row = blocks.locate(
                    load.block, order.row_order(load.epoch, load.block)[load.rows]
                )
                table[load.slots] = np.stack((np.full(len(row), source), stored, row), axis=1)
            origin[here] = table[lane[here] * round_.length + rows[here] - round_.start]
            remaining &= ~here

        return origin
