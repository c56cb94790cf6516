from __future__ import annotations

import numpy as np

from clozeline.pipeline.shards import open_shards
from clozeline.report.html_page import page
from clozeline.tools.shards.shard_statistics.tally import Tally, tally
from clozeline.tools.shards.shard_stats import length_bars, ranges
from tests.pages import checked
from tests.tools.small_run import example_sets


def test_few_values_have_a_bar_each():
    assert ranges(np.array([5, 0, 7])).tolist() == [0, 1, 2, 3]
    assert ranges(np.zeros(0, np.int64)).tolist() == [0, 1]


def test_many_values_share_bars_of_equal_range():
    edges = ranges(np.arange(200))
    assert len(edges) - 1 <= 20
    assert set(np.diff(edges)[:-1]) == {10}
    assert (edges[0], edges[-1]) == (0, 200)


def test_ranges_widen_where_a_few_values_are_very_large():
    counts = np.zeros(100_000, np.int64)
    counts[5:50] = 100
    counts[99_999] = 1
    edges = ranges(counts)
    bins = np.add.reduceat(counts, edges[:-1])
    assert bins.sum() == counts.sum()
    assert (bins > 0).sum() > 5
    assert (edges[0], edges[-1]) == (0, 100_000)
    assert (np.diff(np.diff(edges)) >= -1).all()


def test_bars_show_what_was_counted(shard_sets):
    shards = open_shards(example_sets(shard_sets)["masked_lm"][0])
    found = tally(shards, None)
    texts = checked(page("", list(length_bars(found)))).texts
    at = texts.index("Rows by length of input_ids")
    end = texts.index("Rows by length of label_positions")
    assert sum(int(count.replace(",", "")) for count in texts[at + 2 : end : 2]) == shards.manifest.totals.samples


def test_names_of_columns_are_escaped():
    hostile = "<script>alert(1)</script>"
    figures = list(length_bars(Tally(lengths={hostile: np.array([1, 2]), "empty": np.zeros(0, np.int64)})))
    assert checked(page("", figures)).texts[-5:] == [f"Rows by length of {hostile}", "0", "1", "1", "2"]
