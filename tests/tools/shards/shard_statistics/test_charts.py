from __future__ import annotations

import numpy as np
import pytest

from clozeline.pipeline.shards import open_shards
from clozeline.report.html_page import page
from clozeline.tools.shards.shard_statistics.charts import coverage, pictures, ranges
from clozeline.tools.shards.shard_statistics.tally import Tally, tally
from tests.pages import checked
from tests.tools.small_run import example_sets


def test_few_values_have_a_bar_each():
    assert ranges(np.array([5, 0, 7])).tolist() == [0, 1, 2, 3]
    assert ranges(np.zeros(0, np.int64)).tolist() == [0, 1]


def test_many_values_share_bars_of_equal_range():
    edges = ranges(np.arange(200))
    assert len(edges) - 1 <= 48
    assert set(np.diff(edges)[:-1]) == {5}
    assert (edges[0], edges[-1]) == (0, 200)


def test_ranges_widen_where_a_few_values_are_very_large():
    counts = np.zeros(100_000, np.int64)
    counts[5:50] = 100
    counts[99_999] = 1
    edges = ranges(counts)
    bins = np.add.reduceat(counts, edges[:-1])
    assert bins.sum() == counts.sum()
    assert (bins > 0).sum() > 10
    assert (edges[0], edges[-1]) == (0, 100_000)
    assert (np.diff(np.diff(edges)) >= -1).all()


def test_the_most_frequent_ids_make_up_everything_in_the_end():
    assert coverage(np.array([0, 50, 30, 20, 0])) == [(1, 50), (2, 80), (3, 100)]
    assert coverage(np.zeros(4, np.int64)) == []
    frequencies = np.random.default_rng(1).integers(0, 1000, 5000)
    points = coverage(frequencies)
    for rank, share in points:
        expected = 100 * sum(sorted(frequencies.tolist(), reverse=True)[: int(rank)]) / frequencies.sum()
        assert share == pytest.approx(expected)
    assert points[-1] == (np.count_nonzero(frequencies), pytest.approx(100))


def test_pictures_show_what_was_counted(shard_sets):
    shards = open_shards(example_sets(shard_sets)["masked_lm"][0])
    found = tally(shards, None)
    parsed = checked(page("", list(pictures(shards.manifest, found))))
    rows = shards.manifest.totals.samples
    assert parsed.pictures[0].startswith(f"Rows by length of input_ids: {rows:,} from 0 to ")
    masked = int(found.labels[0])
    kinds = next(shown for shown in parsed.pictures if shown.startswith("Labels by"))
    assert f"the mask {masked:,} · {100 * masked / found.labels.sum():.1f} %" in kinds
    assert f"Tokens by language: en {shards.manifest.totals.tokens:,} · 100.0 %" in parsed.pictures


def test_names_of_columns_and_sources_are_escaped(shard_sets):
    shards = open_shards(example_sets(shard_sets)["masked_lm"][0])
    hostile = "<script>alert(1)</script>"
    found = Tally(lengths={hostile: np.array([1, 2])}, ids={hostile: np.array([1, 2])}, tokens_by_source={hostile: 3})
    parsed = checked(page("", list(pictures(shards.manifest, found))))
    assert [hostile in shown for shown in parsed.pictures] == [True, True, True]
