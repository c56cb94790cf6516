from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.train.data.stream.mixture import Mixture, Phase, SourceKey, Timeline
from tests.train.data.stream.streams import keys

weights = st.lists(st.integers(1, 20), min_size=1, max_size=6)


def slow_reads(
    plans: list[Phase[SourceKey]], lanes: int, positions: int, period: int
) -> list[list[tuple[SourceKey, int]]]:
    """(source, lane row) at every position of every lane, counted one by one."""
    timeline = Timeline(plans, lanes, lanes, period)
    found = []
    for lane in range(lanes):
        read: Counter[SourceKey] = Counter()
        column = []
        for position in range(positions):
            phase = timeline.at(position)
            table = phase.mixture.table
            source = phase.sources[table[(position - phase.start + lane) % len(table)]]
            column.append((source, read[source]))
            read[source] += 1
        found.append(column)
    return found


def fast_reads(timeline: Timeline, positions: int) -> list[list[tuple[SourceKey, int]]]:
    """The same in closed form, a stretch at a time."""
    found: list[list[tuple[SourceKey, int]]] = [[] for _ in range(timeline.lanes)]
    lanes = np.arange(timeline.lanes)
    for position in range(positions):
        phase, at = timeline.at(position), np.array([position])
        drawn = phase.draw_sources(lanes, at)[:, 0]
        for lane, k in enumerate(drawn.tolist()):
            row = int(phase.rows(k, lanes, at)[lane, 0])
            found[lane].append((phase.sources[k], row))
            assert phase.position(k, lane, row) == position
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(weights, st.integers(1, 30)), min_size=1, max_size=3), st.integers(1, 7), st.data())
def test_every_lane_reads_consecutive_rows_of_every_source(
    shapes: list[tuple[list[int], int]], lanes: int, data: st.DataObject
) -> None:
    """Over phases that are no multiple of the period, nothing is lost and nothing comes twice."""
    plans, until = [], 0
    for number, (shares, length) in enumerate(shapes):
        until += length
        sources = keys(*data.draw(st.permutations(range(6)))[: len(shares)])
        last = number + 1 == len(shapes)
        plans.append(Phase(sources, tuple(map(float, shares)), None if last else until * lanes))
    timeline = Timeline(plans, lanes, lanes, 128)
    assert fast_reads(timeline, until) == slow_reads(plans, lanes, until, 128)


@settings(max_examples=100, deadline=None)
@given(weights)
def test_proportions_are_exact_in_a_period_and_close_before(shares: list[int]) -> None:
    mixture = Mixture(shares, 1024)
    assert mixture.counts.sum() == mixture.period
    assert (abs(mixture.counts - np.array(shares) / sum(shares) * mixture.period) < 1).all()
    for source, count in enumerate(mixture.counts.tolist()):
        taken = np.cumsum(mixture.table == source)
        assert taken[-1] == count
        exact = np.arange(1, mixture.period + 1) * count / mixture.period
        assert abs(taken - exact).max() <= 1.25
        x = np.arange(0, 3 * mixture.period, 7)
        slow = [int((np.resize(mixture.table, n) == source).sum()) for n in x.tolist()]
        assert mixture.count_drawn(source, x).tolist() == slow
        assert [
            int(mixture.count_drawn(source, np.array(mixture.find_entry(source, n)))) for n in range(count)
        ] == list(range(count))


@settings(max_examples=50, deadline=None)
@given(weights, st.sampled_from([1, 2, 8, 32, 64]), st.integers(1, 5))
def test_every_global_batch_is_near_its_shares(shares: list[int], lanes: int, count: int) -> None:
    timeline = Timeline([Phase(keys(*range(len(shares))), tuple(map(float, shares)))], lanes, lanes)
    phase = timeline.stretches[0]
    target = phase.mixture.counts / phase.mixture.period
    for position in range(0, 40 * count, count):
        drawn = phase.draw_sources(np.arange(lanes), np.arange(position, position + count))
        share = np.bincount(drawn.reshape(-1), minlength=len(shares)) / drawn.size
        assert (abs(share - target) <= 2.2 / lanes).all()


def test_two_equal_sources_are_in_every_batch() -> None:
    phase = Timeline([Phase(keys(0, 1))], 8, 8).stretches[0]
    for position in range(64):
        assert np.bincount(phase.draw_sources(np.arange(8), np.array([position]))[:, 0]).tolist() == [4, 4]


def test_lanes_differ_by_few_rows() -> None:
    phase = Timeline([Phase(keys(0, 1, 2), (5.0, 3.0, 2.0))], 64, 64).stretches[0]
    for position in range(0, 5000, 97):
        for k in range(3):
            rows = phase.rows(k, np.arange(64), np.array([position]))
            assert rows.max() - rows.min() <= 3


def test_the_worked_example() -> None:
    mixture = Mixture((2, 1), 3)
    assert (mixture.counts.tolist(), mixture.table.tolist()) == ([2, 1], [0, 1, 0])


def test_one_source_keeps_all_lanes_together() -> None:
    plans = [Phase(keys(0), (), 40), Phase(keys(1), (), 60), Phase(keys(0), ())]
    phases = Timeline(plans, 4, 4).stretches
    assert phases[2].rows(0, np.arange(4), np.array([15])).tolist() == [[10]] * 4


def test_a_batch_lies_in_one_phase() -> None:
    timeline = Timeline([Phase(keys(0), (), 40), Phase(keys(1))], 4, 4)
    assert [timeline.at(position, 3) for position in (0, 7, 10)] == [timeline.stretches[n] for n in (0, 0, 1)]
    with pytest.raises(ConfigurationError, match="a global batch of 12 at 32 crosses the end of a phase at 40"):
        timeline.at(8, 3)


def test_a_phase_ends_on_a_batch_of_its_own_wherever_it_begins() -> None:
    """Else its batches would miss its end, in the middle of a run; from a saved position on only the rest counts."""
    plans = [Phase(keys(0), (), 36, 12), Phase(keys(1), (), 72), Phase(keys(0))]
    problem = "until_samples 72 of phase 1 is not a multiple of 8, counted from 36, where it begins"
    with pytest.raises(ConfigurationError, match=f"{problem}, its global batch; nearest: 68 or 76"):
        Timeline(plans, 4, 8)
    assert [phase.global_batch for phase in Timeline(plans, 4, 4).stretches] == [12, 4, 4]
    assert len(Timeline(plans, 4, 8, read=40).stretches) == 3
    with pytest.raises(ConfigurationError, match="counted from 44, where the checkpoint is"):
        Timeline(plans, 4, 8, read=44)


@pytest.mark.parametrize(
    ("plans", "message"),
    [
        ([Phase(keys(0, 1), (1.0, 0.0))], "above 0"),
        ([Phase(keys(0, 1), (1.0, float("inf")))], "finite numbers"),
        ([Phase(keys(0, 1), (float("nan"), 1.0))], "finite numbers"),
        ([Phase(keys(0, 1), (1e308, 1e308))], "finite numbers"),
        ([Phase(keys(0, 1), (1.0, 1e-6))], "without a row among 4096 rows"),
        ([Phase(keys(0)), Phase(keys(1))], "only the last may be endless"),
        ([Phase(keys(0), (), 8)], "the last must have no until_samples"),
        ([Phase(keys(0), (), 8), Phase(keys(1), (), 8), Phase(keys(0))], "ends at 8 samples, but begins at 8"),
        ([Phase(keys(0), (), 12, 8), Phase(keys(1))], "until_samples 12 of phase 0 is not a multiple of 8"),
        ([Phase(keys(0), (), 12, 8), Phase(keys(1), (), None, 4)], "nearest: 8 or 16"),
    ],
)
def test_what_cannot_be_mixed(plans: list[Phase[SourceKey]], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Timeline(plans, 4, 4)


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.6, 0.7, 1.5]), min_size=2, max_size=6))
def test_decimal_weights_are_counted_exactly(decimals: list[float]) -> None:
    """Tenths as whole numbers give the same counts: no binary fraction decides a tie."""
    tenths = [round(10 * weight) for weight in decimals]
    assert Mixture(decimals).counts.tolist() == Mixture(tenths).counts.tolist()


def key(content: str, name: str = "set") -> SourceKey:
    return SourceKey(name, 40, 4, content)


def begins(*phases: list[SourceKey]) -> list[list[int]]:
    """The lane row that lane 0 of 1 reads first of each source, in phases of 8 rows; shares are equal."""
    plans: list[Phase[SourceKey]] = [Phase(tuple(keys), (), 8 * (n + 1)) for n, keys in enumerate(phases[:-1])]
    stretches = Timeline([*plans, Phase(tuple(phases[-1]))], 1, 1).stretches
    return [stretch.base[:, 0].tolist() for stretch in stretches]


def test_a_set_is_counted_by_its_content_and_continues_for_a_copy() -> None:
    a, b, c = key("a"), key("b"), key("c")
    assert begins([a, b], [b], [a, b], [a]) == [[0, 0], [4], [4, 12], [8]], "two sets of one name"
    assert begins([a], [b], [a]) == [[0], [8], [16]], "a copy continues, and so does the set after it"
    assert begins([a], [a, b], [b]) == [[0], [8, 0], [4]], "beside the set it is no copy"
    assert begins([a], [b], [a, b], [b]) == [[0], [8], [8, 16], [20]], "nor after it: each is where it stopped"
    assert begins([a, b], [c, b], [c, a]) == [[0, 0], [4, 4], [8, 4]]
    assert begins([a], [key("a", "other name")]) == [[0], [0]]
    assert begins([a], [a._replace(corruption="x")]) == [[0], [8]]
