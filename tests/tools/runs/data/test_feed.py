from __future__ import annotations

import pytest

from clozeline.errors import ConfigurationError
from clozeline.tools.runs.data.feed import Feed
from clozeline.tools.shards.explain_batch import explain
from clozeline.tools.shards.provenance.row_search import find_rows
from clozeline.tools.shards.where_is import visits
from clozeline.train.data.stream.phases import as_phases
from tests.shard_sets import toy_set
from tests.tools.feeds import delivered, mixed


@pytest.mark.parametrize(("sizes", "lanes", "global_batch"), [([9, 2, 13], 2, 6), ([3], 4, 4), ([33, 8], 4, 8)])
def test_batches_are_those_of_the_stream(tmp_path, sizes, lanes, global_batch):
    shards = toy_set(tmp_path, sizes)
    feed = Feed(as_phases(shards), 5, lanes, global_batch)
    fillers = 0
    for samples, origin in delivered(as_phases(shards), 5, lanes, global_batch, 20):
        visits = feed.batch(samples)
        assert [visit.stored or (-1, -1) for visit in visits] == [tuple(row[1:]) for row in origin.tolist()]
        assert [feed.index_in_batch(visit) for visit in visits] == list(range(global_batch))
        fillers += sum(visit.stored is None for visit in visits)
    epoch = feed.reading.orders[0].lane_rows * lanes
    assert 0 <= fillers - 20 * global_batch // epoch * (epoch - len(shards)) < lanes


def test_mixtures_and_phases_are_those_of_the_stream(tmp_path):
    feed = mixed(tmp_path)
    found = delivered(feed.phases, 5, 2, 4, 40)
    assert len(found[0][1]) == 4
    assert len(found[6][1]) == 8
    for step, (samples, origin) in enumerate(found, start=1):
        visits = feed.batch(samples)
        assert [(visit.source, *visit.stored) if visit.stored else (-1, -1, -1) for visit in visits] == [
            tuple(row) for row in origin.tolist()
        ]
        assert (feed.samples(step), feed.step(samples), feed.rows(samples)) == (samples, step, len(origin))
    assert {one["set"] for one in explain(feed, 0)} == {"toy/train", "other"}


def test_no_batch_has_rows_of_two_phases(tmp_path):
    feed = mixed(tmp_path)
    assert {feed.batch_start(visit) for visit in feed.batch(20)} == {20}
    with pytest.raises(ConfigurationError, match="a global batch of 4 at 22 crosses the end of a phase at 24"):
        feed.batch(22)


@pytest.mark.parametrize(("sizes", "lanes", "global_batch"), [([9, 2, 13], 2, 6), ([3], 4, 4), ([33, 8], 4, 8)])
def test_visits_are_the_inverse_of_batches(tmp_path, sizes, lanes, global_batch):
    feed = Feed(as_phases(toy_set(tmp_path, sizes)), 5, lanes, global_batch)
    epochs = 3
    shown = {}
    for samples in range(0, (epochs + 1) * feed.reading.orders[0].lane_rows * lanes, global_batch):
        for facts in explain(feed, samples):
            if "sample" in facts and facts["epoch"] < epochs:
                shown[facts["sample"], facts["epoch"]] = (samples, facts["place"], facts["lane"])
    assert len(shown) == epochs * sum(sizes)
    for uid in range(1, sum(sizes) + 1):
        for one in visits(feed, [(0, row) for row in find_rows(feed.sets[0], uid)], [range(epochs)]):
            assert shown[f"{uid:016x}", one["epoch"]] == (one["samples"], one["place"], one["lane"])
            assert one["step"] == one["samples"] // global_batch + 1


def test_visits_of_mixtures_and_phases_are_the_inverse_of_batches(tmp_path):
    feed = mixed(tmp_path)
    shown = {}
    for step in range(1, 60):
        for facts in explain(feed, feed.samples(step)):
            if "sample" in facts:
                shown.setdefault(facts["sample"], set()).add((facts["set"], facts["epoch"], step, facts["place"]))
    assert {name for found in shown.values() for name, *_ in found} == {"toy/train", "other"}
    for uid in range(1, 25):
        found = {
            (one["set"], one["epoch"], one["step"], one["place"])
            for one in visits(
                feed, [(n, row) for n, part in enumerate(feed.sets) for row in find_rows(part, uid)], [range(40)] * 2
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
