"""Mixtures and phases: shares, ends, and changes in the middle of a run, row by row against the
slow order."""

from typing import NamedTuple

import numpy as np
import pytest

from clozeline.errors import StateMismatch
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.train.data.stream.mixture import Phase, SourceKey, SourceMixture, Timeline
from clozeline.train.data.stream.phases import continue_phases, phase_of
from tests.refusals import refused
from tests.shard_sets import toy_set
from tests.train.data.stream.slow_order import SlowPhase, SlowSet, SlowStream
from tests.train.data.stream.streams import ToyCorruption, keys, open_stream


@pytest.mark.parametrize("rows", [33, 37, 3082])
def test_sets_of_the_same_size_have_the_shares_of_their_weights(rows):
    """To the last bit: .75 is not logged as .7499999999999999."""
    assert SourceMixture([3, 1]).row_shares([rows, rows], 8) == [0.75, 0.25]


def test_a_phase_ends_on_a_batch_of_its_own_wherever_it_begins():
    """Else its batches would miss its end, in the middle of a run.

    From a saved position on only the rest counts.
    """
    plans = [
        Phase(keys(0), (), 36, 12),
        Phase(keys(1), (), 72),
        Phase(keys(0)),
    ]
    problem = "until_samples 72 of phase 1 is not a multiple of 8, counted from 36, where it begins"
    with refused(f"{problem}, its global batch; nearest: 68 or 76"):
        Timeline(plans, 4, 8)

    assert [phase.global_batch for phase in Timeline(plans, 4, 4).spans] == [12, 4, 4]
    assert len(Timeline(plans, 4, 8, read=40).spans) == 3

    with refused("counted from 44, where the checkpoint is"):
        Timeline(plans, 4, 8, read=44)


@pytest.mark.parametrize(
    ("plans", "message"),
    [
        ([Phase(keys(0, 1), (1.0, 0.0))], "above 0"),
        ([Phase(keys(0, 1), (float("nan"), 1.0))], "finite numbers"),
        ([Phase(keys(0, 1), (1.0, 1e-6))], "without a row among 4096 rows"),
        ([Phase(keys(0)), Phase(keys(1))], "only the last may be endless"),
        ([Phase(keys(0), (), 8)], "the last must have no until_samples"),
        (
            [
                Phase(keys(0), (), 8),
                Phase(keys(1), (), 8),
                Phase(keys(0)),
            ],
            "ends at 8 samples, but begins at 8",
        ),
        (
            [
                Phase(keys(0), (), 12, 8),
                Phase(keys(1), (), None, 4),
            ],
            "nearest: 8 or 16",
        ),
    ],
)
def test_what_cannot_be_mixed(plans, message):
    with refused(message):
        Timeline(plans, 4, 4)


def key(content, name="set"):
    return SourceKey(name, 40, 4, content)


def begins(*phases):
    """The lane row that lane 0 of 1 reads first of each source, in phases of 8 rows.

    Shares are equal.
    """
    plans = [Phase(tuple(keys), (), 8 * (n + 1)) for n, keys in enumerate(phases[:-1])]
    spans = Timeline([*plans, Phase(tuple(phases[-1]))], 1, 1).spans
    return [span.base[:, 0].tolist() for span in spans]


def test_a_set_is_counted_by_its_content_and_continues_for_a_copy():
    a = key("a")
    b = key("b")
    c = key("c")

    assert begins([a, b], [b], [a, b], [a]) == [[0, 0], [4], [4, 12], [8]], "two sets of one name"
    assert begins([a], [b], [a]) == [[0], [8], [16]], (
        "a copy continues, and so does the set after it"
    )
    assert begins([a], [a, b], [b]) == [[0], [8, 0], [4]], "beside the set it is no copy"
    assert begins([a], [b], [a, b], [b]) == [[0], [8], [8, 16], [20]], (
        "nor after it: each is where it stopped"
    )
    assert begins([a, b], [c, b], [c, a]) == [[0, 0], [4, 4], [8, 4]]
    assert begins([a], [key("a", "other name")]) == [[0], [0]]
    assert begins([a], [a._replace(corruption="x")]) == [[0], [8]]


LANES = 4
SEED = 3
SETS = [
    SlowSet("a", (23, 0, 9, 2), 4),
    SlowSet("b", (3,), 4),
    SlowSet("c", (11, 26), 5),
    SlowSet("a", (23, 0, 9, 2), 4),
]
"""The last set is like the first one in name, rows and blocks, and holds other rows."""


def unchanged(rows, variants):
    return rows, np.zeros(len(rows), np.uint8)


def sevens(rows, variants):
    ids = rows.columns["input_ids"]
    return unchanged(
        RowBatch(rows.fixed, {"input_ids": Ragged(np.full_like(ids.values, 7), ids.offsets)}),
        variants,
    )


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    options = {"kind": "samples", "objective": None}
    return [
        toy_set(
            folder / str(number),
            s.sizes,
            row_length=8 - number,
            name=s.name,
            block_rows=s.block_rows,
            **options,
        )
        for number, s in enumerate(SETS)
    ]


class Part(NamedTuple):
    """Return what is read for some steps: numbers of sets, their weights, and the objective."""

    sets: tuple[int, ...]
    weights: tuple[int, ...]
    objective: str
    batch: int
    steps: int

    def phase(self, sets, until=None):
        corruptions = tuple(ToyCorruption(unchanged, identity=self.objective) for _ in self.sets)
        weights = tuple(map(float, self.weights))
        return phase_of(tuple(sets[n] for n in self.sets), weights, until, self.batch, corruptions)


CHANGES = {
    "of two sets of one name, one is left out for a while": [
        Part((0, 3), (1, 1), "x", 8, 5),
        Part((3,), (1,), "x", 8, 3),
        Part((0, 3), (1, 1), "x", 8, 3),
    ],
    "weights, batches and objectives": [
        Part((0, 1), (3, 1), "x", 8, 6),
        Part((2, 0, 1), (1, 2, 5), "x", 12, 4),
        Part((2, 0), (4, 1), "y", 4, 9),
    ],
}


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_reads_no_row_twice_and_leaves_none_out(sets, name, planned):
    """Each start knows its own sets alone, and what the state says.

    `planned`: it plans further phases in vain.
    """
    changes = CHANGES[name]
    state = None
    digests = [one.digest for one in sets]
    samples = 0
    ends = []
    delivered = []

    for part in changes:
        data = [part.phase(sets)]

        if planned and samples % part.batch == 0:  # else no end fits both a start at 0 and this one
            data = [
                part.phase(sets, samples + part.batch * (part.steps + 1)),
                changes[0].phase(sets),
            ]

        with open_stream(data, lanes=LANES, seed=SEED, micro_batch=LANES) as stream:
            if state is not None:
                stream.load_state_dict(state, allow_changed=["data"])
            numbers = [digests.index(one.digest) for one in stream.reading.sets]

            for _ in range(part.steps):
                told = stream.explain(stream.samples)
                origin = np.concatenate([batch.origin for batch in stream.next_step()])
                assert (origin == told).all()
                delivered.append(
                    [[numbers[s], b, r] if s >= 0 else [-1] * 3 for s, b, r in origin.tolist()]
                )

            state = stream.state_dict()

        samples += part.batch * part.steps

        assert state["samples"] == samples

        ends.append(samples)

    slow = SlowStream(SETS, slow_phases(state["data"], changes, ends, digests), SEED, LANES)
    position = 0

    for rows in delivered:
        count = len(rows) // LANES
        assert rows == slow.batch(position, count)
        position += count


def slow_phases(plans, changes, ends, digests):
    """The recorded phases for the slow order, each of which must be what was asked for while it
    lasted."""
    phases = []

    for sources, _, until, _ in plans:
        end = ends[-1] if until is None else min(until, ends[-1])
        part = next(part for part, stop in zip(changes, ends, strict=True) if end <= stop)

        assert [(digest, objective) for *_, digest, objective in sources] == [
            (digests[n][:32], part.objective) for n in part.sets
        ]

        phases.append(SlowPhase(part.sets, part.weights, until and until // LANES))
        if until is None or until >= ends[-1]:
            break

    return [
        *phases[:-1],
        SlowPhase(phases[-1].sources, phases[-1].weights),
    ]


def test_a_state_of_other_data_needs_leave(sets):
    first, second = (Part((0,), (1,), name, 8, 1) for name in "xy")

    with open_stream([first.phase(sets)]) as stream, open_stream([second.phase(sets)]) as other:
        stream.next_step()
        with pytest.raises(StateMismatch, match="data"):
            other.load_state_dict(stream.state_dict())
        other.load_state_dict(stream.state_dict(), allow_changed=["data"])
        state = other.state_dict()

        assert [until for _, _, until, _ in state["data"]] == [8, None]

        other.set_position(0)

        with refused("was read from a, which the configuration no longer names"):
            other.next_step()

        other.load_state_dict(state)

        assert other.next_step()


def test_what_was_read_stays_as_it_was():
    a = Phase(keys(0), (), 48)
    b = Phase(keys(1))

    assert continue_phases([a, b], [a, b], 16) == [a, b]
    assert continue_phases(
        [a, b],
        [Phase(keys(2), (), 32), b],
        64,
    ) == [a, b], "only what follows may differ"
    assert continue_phases([a, b], [b], 16) == [Phase(keys(0), (), 16), b]
    assert continue_phases([a, b], [Phase(keys(2))], 48) == [a, Phase(keys(2))]
    assert continue_phases([a, b], [Phase(keys(2))], 0) == [Phase(keys(2))]


@pytest.mark.parametrize("threads", [0, 2])
def test_a_phase_has_a_corruption_of_its_own_over_the_same_samples(sets, threads):
    """From the very sample on, in the middle of blocks, and each row once an epoch over all
    phases."""
    objectives = (ToyCorruption(unchanged), ToyCorruption(sevens, identity="sevens"))
    ends = (24, None)
    phases = [
        phase_of((sets[2],), (), end, None, (one,))
        for end, one in zip(ends, objectives, strict=True)
    ]
    seen = []

    with open_stream(phases, io_threads=threads) as stream:
        while len(seen) < 37 - 1:
            before = stream.samples

            for batch in stream.next_step():
                seen += [
                    (block, row) for source, block, row in batch.origin.tolist() if source >= 0
                ]
                real = batch.tensors["input_ids"][batch.row_weight > 0]
                assert bool((real == 7).all()) == (before >= 24)

    assert len(set(seen[:37])) == len(seen[:37])
