"""Rows that the stream delivers, tells beforehand and finds again, row by row against an order
written out again."""

import itertools
from dataclasses import dataclass
from math import lcm
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.tools.runs.data.feed import Feed
from clozeline.train.data.stream.mixture import Phase
from clozeline.train.data.stream.phases import Input, phase_of
from tests.refusals import refused
from tests.shard_sets import ids_of, toy_set
from tests.train.data.stream.slow_order import SlowPhase, SlowSet, SlowStream
from tests.train.data.stream.streams import open_stream

SEED = 5
SETS = [
    SlowSet("long", (23, 0, 9, 2), 4),
    SlowSet("shorter than the lanes", (3,), 4),
    SlowSet("nothing but tails", (1, 2, 1, 3, 2) * 9, 7),
    SlowSet("long", (11, 26), 5),  # two sets of one name
    SlowSet("a row", (1,), 6),
]


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    kinds = itertools.cycle(itertools.product(("arrow", "tar"), ("none", "zstd")))
    return [
        toy_set(
            folder / str(number),
            one.sizes,
            name=one.name,
            block_rows=one.block_rows,
            container=container,
            codec=codec,
        )
        for number, (one, (container, codec)) in enumerate(zip(SETS, kinds, strict=False))
    ]


@pytest.fixture(autouse=True, scope="module")
def small_portions():
    """Build few batches that are never taken."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clozeline.train.data.stream.batches._ROWS_AT_ONCE", 50)
        yield


class Part(NamedTuple):
    """A phase: numbers of sets, their weights, its end in samples, and its global batch."""

    sets: tuple[int, ...]
    weights: tuple[int, ...]
    until: int | None
    batch: int | None


class Case(NamedTuple):
    """A stream, and what is done with it: a step, or where to go on."""

    lanes: int
    world: int
    threads: int
    ahead: int
    memory: int
    batch: int
    parts: list[Part]
    actions: list[tuple[str, int]]

    def data(self, sets):
        return [
            phase_of(
                tuple(sets[n] for n in part.sets),
                tuple(map(float, part.weights)),
                part.until,
                part.batch,
            )
            for part in self.parts
        ]

    def slow(self):
        order = list(dict.fromkeys(number for part in self.parts for number in part.sets))
        phases = [
            SlowPhase(
                tuple(map(order.index, part.sets)),
                part.weights,
                part.until and part.until // self.lanes,
            )
            for part in self.parts
        ]

        return SlowStream([SETS[number] for number in order], phases, SEED, self.lanes)

    def open(self, data):
        options = {
            "lanes": self.lanes,
            "seed": SEED,
            "global_batch": self.batch,
            "memory_bytes": self.memory,
        }

        options |= {
            "micro_batch": self.lanes // self.world,
            "io_threads": self.threads,
            "prefetch_blocks": self.ahead,
        }

        return [open_stream(data, rank, self.world, **options) for rank in range(self.world)]

    def part(self, samples):
        return next(part for part in self.parts if part.until is None or samples < part.until)

    def turns(self):
        """Positions where something ends: phases, and the first epochs of the sets."""
        epochs = [
            -(-sum(SETS[n].sizes) // self.lanes) * self.lanes
            for part in self.parts
            for n in part.sets
        ]

        return [part.until for part in self.parts if part.until] + [
            e * whole for e in (1, 2, 3) for whole in epochs
        ]


@st.composite
def cases(draw):
    lanes = draw(st.sampled_from([1, 2, 3, 4, 6, 7, 8, 12]))
    batch = lanes * draw(st.integers(1, 4))
    parts = []
    until = 0
    count = draw(st.integers(1, 4))
    batches = [draw(st.sampled_from([None, lanes, 2 * lanes, 3 * lanes])) for _ in range(count)]

    for number in range(count):
        chosen = draw(st.permutations(range(len(SETS))))[: draw(st.integers(1, 4))]
        cuts = sorted(draw(st.permutations(range(1, 64)))[: len(chosen) - 1])
        weights = tuple(stop - start for start, stop in zip([0, *cuts], [*cuts, 64], strict=True))
        unit = lcm(*(size or batch for size in batches[number : number + 2]))
        until = (until // unit + draw(st.integers(1, 12))) * unit
        parts.append(
            Part(tuple(chosen), weights, until if number + 1 < count else None, batches[number])
        )

    action = st.tuples(st.sampled_from(["step", "step", "turn", "anywhere"]), st.integers(0, 400))
    return Case(
        lanes,
        draw(st.sampled_from([n for n in range(1, lanes + 1) if lanes % n == 0])),
        draw(st.sampled_from([0, 0, 1, 2])),
        draw(st.integers(0, 2)),
        draw(st.sampled_from([1 << 33, 1 << 33, 1 << 14])),
        batch,
        parts,
        draw(st.lists(action, min_size=3, max_size=15)),
    )


@dataclass
class Play:
    """Goes through a case.

    Every batch, its announcement and the way back must be those of the slow order.
    """

    case: Case
    data: list[Phase[Input]]
    samples: int = 0

    def __post_init__(self):
        case = self.case
        self.streams = case.open(self.data)
        self.slow = case.slow()
        self.feed = Feed(self.data, SEED, case.lanes, case.batch)

    def act(self, action, number):
        lanes = self.case.lanes
        turns = self.case.turns()

        if action in ("turn", "anywhere"):
            self.samples = number * lanes if action == "anywhere" else turns[number % len(turns)]
            for stream in self.streams:
                stream.set_position(self.samples)

        part = self.case.part(self.samples)
        size = part.batch or self.case.batch
        if part.until is None or self.samples + size <= part.until:
            self.take(size)
        else:
            self.refuse()

    def take(self, size):
        lanes = self.case.lanes
        expected = self.slow.batch(self.samples // lanes, size // lanes)

        assert self.streams[0].explain(self.samples).tolist() == expected

        self.check_tools(expected)
        found = [stream.next_step() for stream in self.streams]

        assert together(found) == expected

        ids = [
            row
            for batches in found
            for batch in batches
            for row in batch.tensors["input_ids"][:, 0].tolist()
        ]

        assert ids == [self.first_id(*origin) for origin in expected]

        self.samples += size

        assert {stream.samples for stream in self.streams} == {self.samples}

    def first_id(self, source, block, row):
        """The first token of a stored row: the sets' rows are numbered from 1.

        Of filler, the pad.
        """
        if source < 0:
            return 0
        before = int(self.streams[0].sources[source].shards.index.rows[:block].sum())
        return int(ids_of(before + row + 1, 1)[0])

    def refuse(self):
        """A batch that would hold rows of two phases."""
        for stream in self.streams:
            with refused("crosses the end of a phase"):
                stream.next_step()
            with refused("crosses the end of a phase"):
                stream.explain(self.samples)

    def check_tools(self, expected):
        """The tools' view of the batch, and of the position of some of its rows."""
        row_reads = self.feed.batch(self.samples)

        assert [
            [visit.source, *visit.stored] if visit.stored else [-1] * 3 for visit in row_reads
        ] == expected

        for visit in row_reads[:: max(1, len(row_reads) // 3)]:
            if visit.stored:
                assert self.feed.reading.find(visit.source, visit.stored, visit.epoch) == visit


def together(ranks):
    return [origin for batches in ranks for batch in batches for origin in batch.origin.tolist()]


@settings(max_examples=12)
@given(cases())
def test_the_stream_has_the_slow_order(sets, case):
    play = Play(case, case.data(sets))
    for action, number in case.actions:
        play.act(action, number)
    for stream in play.streams:
        stream.close()


def test_shares_are_those_of_the_rows_that_come(tmp_path):
    """Ten rows on 16 lanes come with 6 of filler: counted, 5 of 13 rows are theirs at equal
    weights, and it is said."""
    small, large = (
        toy_set(tmp_path / name, [rows], name=name)
        for name, rows in (("small", 10), ("large", 160))
    )

    with open_stream([phase_of([small, large])], lanes=16, global_batch=16) as stream:
        sources = stream.reading.origins(0, 512)[:, 0]
        counted = [(sources == number).sum() / (sources >= 0).sum() for number in range(2)]
        assert counted == pytest.approx([5 / 13, 8 / 13], abs=0.01)
        assert [*stream.reading.shares(stream.timeline.at(0)).values()] == pytest.approx(
            counted, abs=0.01
        )
