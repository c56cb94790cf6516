"""The rows, steps and sets of a run, against a real stream and against loops."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.configuration.config import load_keys
from clozeline.errors import ConfigurationError
from clozeline.tools.runs.data.feed import Feed
from clozeline.tools.runs.data.run_sets import MovedSets, SetPaths, locate_sets
from clozeline.tools.runs.data.run_steps import RunSteps, Step
from clozeline.tools.shards.explain_batch import explain
from clozeline.tools.shards.provenance.row_search import find_rows
from clozeline.tools.shards.where_is import row_reads
from clozeline.train.configuration.data import DataConfig, PhaseConfig
from clozeline.train.data.sets.recorded_sets import record_sets
from clozeline.train.data.stream.mixture import Phase, SkippedRows, Timeline
from clozeline.train.data.stream.phases import open_phases, phase_of
from clozeline.train.data.stream.stream import Stream
from tests.shard_sets import toy_set
from tests.tools.small_run import example_sets
from tests.train.data.stream.streams import keys


def delivered(data, seed, lanes, global_batch, steps):
    """Position, and origin of every row, of each batch, by a real stream."""
    found = []

    with Stream(
        data,
        rank=0,
        world_size=1,
        lanes=lanes,
        seed=seed,
        global_batch=global_batch,
        micro_batch=2,
        io_threads=0,
    ) as stream:
        for _ in range(steps):
            samples = stream.samples
            found.append((samples, np.concatenate([batch.origin for batch in stream.next_step()])))

    return found


def mixed(tmp_path):
    """Two sets in shares of 2 to 1, then the first alone in larger batches, then both again."""
    first = toy_set(tmp_path / "first", [9, 2, 13])
    second = toy_set(tmp_path / "second", [5], name="other")
    return Feed(
        [
            phase_of((first, second), (2.0, 1.0), until_samples=24),
            phase_of((first,), until_samples=48, global_batch=8),
            phase_of((second, first), (1.0, 1.0)),
        ],
        seed=5,
        lanes=2,
        global_batch=4,
    )


def test_mixtures_and_phases_are_those_of_the_stream(tmp_path):
    feed = mixed(tmp_path)
    found = delivered(feed.phases, 5, 2, 4, 40)

    assert len(found[0][1]) == 4
    assert len(found[6][1]) == 8

    for step, (samples, origin) in enumerate(found, start=1):
        row_reads = feed.batch(samples)

        assert [
            (visit.source, *visit.stored) if visit.stored else (-1, -1, -1) for visit in row_reads
        ] == [tuple(row) for row in origin.tolist()]
        assert (
            feed.samples(step),
            feed.step(samples),
            feed.rows(samples),
        ) == (
            samples,
            step,
            len(origin),
        )

    assert {one["set"] for one in explain(feed, 0)} == {"toy/train", "other"}


def test_no_batch_has_rows_of_two_phases(tmp_path):
    feed = mixed(tmp_path)

    assert {feed.batch_start(visit) for visit in feed.batch(20)} == {20}

    with pytest.raises(
        ConfigurationError, match="a global batch of 4 at 22 crosses the end of a phase at 24"
    ):
        feed.batch(22)


def test_visits_of_mixtures_and_phases_are_the_inverse_of_batches(tmp_path):
    feed = mixed(tmp_path)
    shown = {}

    for step in range(1, 60):
        for facts in explain(feed, feed.samples(step)):
            if "sample" in facts:
                shown.setdefault(facts["sample"], set()).add(
                    (facts["set"], facts["epoch"], step, facts["place"])
                )

    assert {name for found in shown.values() for name, *_ in found} == {"toy/train", "other"}

    for uid in range(1, 25):
        found = {
            (one["set"], one["epoch"], one["step"], one["place"])
            for one in row_reads(
                feed,
                [(n, row) for n, part in enumerate(feed.sets) for row in find_rows(part, uid)],
                [range(40)] * 2,
            )
        }

        assert {one for one in found if one[2] < 60} == shown.get(f"{uid:016x}", set())


def test_epochs_begun_are_those_of_the_batches(tmp_path):
    """Of a set that is read often beside one that is not, each has its own number of epochs."""
    feed = mixed(tmp_path)
    begun = [0, 0]

    for step in range(1, 60):
        assert [feed.epochs(source, feed.samples(step)) for source in range(2)] == begun
        for visit in feed.batch(feed.samples(step)):
            begun[visit.source] = max(begun[visit.source], visit.epoch + 1)

    assert begun[1] > 2 * begun[0]


PLANS = [
    Phase(keys(0), (), 48, 8),
    Phase(keys(0), (), 96, None),
    Phase(keys(0), (), None, 16),
]


def slow(taken, until):
    """One step after another: those taken, then 8 rows up to sample 48, 4 up to 96, and 16."""
    steps = []
    begin = 0
    for rows in taken:
        steps.append(Step(len(steps) + 1, begin, rows))
        begin += rows

    while begin < until:
        rows = 8 if begin < 48 else 4 if begin < 96 else 16
        steps.append(Step(len(steps) + 1, begin, rows))
        begin += rows

    return steps


@given(st.lists(st.sampled_from([4, 8, 16]), max_size=12), st.integers(1, 3))
def test_steps_and_positions_are_inverse(sizes, lines_every):
    while sum(sizes) not in (0, 48) and sum(sizes) % 16:
        sizes.append(4)
    expected = slow(sizes, 300)
    ends = [(step.number, step.begin + step.rows) for step in expected[: len(sizes)]]
    uniform = len(set(sizes)) <= 1
    taken = [
        end
        for place, end in enumerate(ends, 1)
        if not uniform or place % lines_every == 0 or place == len(ends)
    ]

    steps = RunSteps(Timeline(PLANS, 2, 4), taken)
    for step in expected:
        assert steps.step_of(step.number) == step
        assert {steps.at(step.begin + inside) for inside in range(step.rows)} == {step}


def test_skipped_rows_of_steps_by_tokens_are_one_step():
    """Which of the steps that were taken back read a row is not known.

    The others are those of the records.
    """
    steps = RunSteps(
        Timeline(PLANS, 2, 4), [(1, 8), (2, 64)], by_tokens=True, skipped=[SkippedRows(1, 8, 48)]
    )
    assert steps.at(20) == Step(2, 8, 40)
    assert steps.at(50) == steps.step_of(2) == Step(2, 48, 16)


def with_rollbacks(rollbacks, rows_at):
    """The steps that count, one after another, and the rows skipped: after `more` steps, a return
    by some of them."""
    steps = []
    begin = 0
    skipped = []

    for more, back in [*rollbacks, (12, 0)]:
        for _ in range(more):
            steps.append(Step(len(steps) + 1, begin, rows_at(begin)))
            begin += steps[-1].rows

        if lost := steps[len(steps) - back :] if back else []:
            del steps[-len(lost) :]
            # others are taken back
            skipped = [entry for entry in skipped if entry.step <= len(steps)]
            start = lost[0].begin
            # rows that were skipped before the first of the lost steps are skipped in any case
            skipped.append(SkippedRows(len(steps), start, begin))

    return steps, skipped


@given(
    st.lists(
        st.integers(1, 8).flatmap(lambda more: st.tuples(st.just(more), st.integers(1, more + 2))),
        max_size=3,
    ),
    st.integers(1, 4),
    st.integers(0, 12),
)
def test_steps_after_rollbacks_go_on_behind_the_skipped_rows(rollbacks, every, unrecorded):
    """With records of each step and phases, and with records of some and one size.

    None of the last steps.
    """
    plan = PLANS if every == 1 else [Phase(keys(0), (), None, 8)]
    steps, skipped = with_rollbacks(
        rollbacks, lambda begin: 8 if every > 1 or begin < 48 else 4 if begin < 96 else 16
    )
    recorded = steps[: len(steps) - unrecorded]
    taken = [(step.number, step.begin + step.rows) for step in recorded if step.number % every == 0]
    known = RunSteps(Timeline(plan, 2, 4), taken, skipped=skipped)

    for step in steps:
        assert known.step_of(step.number) == step
        assert {known.at(step.begin + inside) for inside in range(step.rows)} == {step}
        assert known.skipped(step.begin) is None

    for back_to, start, stop in skipped:
        assert known.skipped(start) == known.skipped(stop - 1) == (back_to, start, stop)
        assert known.at(start) == Step(back_to + 1, start, known.at(start).rows)


def test_words_about_sets_are_read():
    given = load_keys(MovedSets, {}, ["data.shards=[a, b]", "data.heldout=d"]).data
    assert (given.sets, given.heldout) == ([Path("a"), Path("b")], Path("d"))
    assert load_keys(MovedSets, {}, []).data == SetPaths()
    with pytest.raises(ConfigurationError, match=r"data\.shards"):
        load_keys(MovedSets, {}, ["data.shards={3: 4}"])


def test_sets_of_phases_are_recognized_by_their_digests(shard_sets, tmp_path):
    first, second = (
        example_sets(shard_sets)[name][0].parent for name in ("masked_lm", "whole_word_masking")
    )
    phases = [
        PhaseConfig(shards=first, until_samples=64),
        PhaseConfig(shards=[second, first]),
    ]
    data = DataConfig(phases=phases, global_batch=8, lanes=8)
    record_sets(tmp_path, data, open_phases(data), "")
    copies = [
        shutil.copytree(path, tmp_path / name) for path, name in ((first, "a"), (second, "b"))
    ]
    found = locate_sets(tmp_path, data, SetPaths(shards=[*reversed(copies)]))

    assert [phase.sets for phase in found.all_phases.values()] == [
        [copies[0]],
        [copies[1], copies[0]],
    ]

    with pytest.raises(
        ConfigurationError,
        match=r"data\.shards: .*whole_word_masking.* not among those given",
    ):
        locate_sets(tmp_path, data, SetPaths(shards=copies[0]))
