"""The whole stage on documents in memory: what stays, what is said about the rest, and that order cannot matter."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.dedup.config import DedupConfig
from clozeline.pipeline.execution import shuffle
from tests.pipeline.dedup.dedup_documents import EXACT, NEAR, document, edited, prose


@pytest.mark.parametrize("config", [EXACT, NEAR, {}])
def test_ten_thousand_copies_leave_one(run_dedup, config):
    copies = [document(n, "the same short text in ten thousand places") for n in range(10_000)]
    result = run_dedup([copies[::2], copies[1::2]], config, shards=4)
    assert [row.uid for row in result.documents()] == [min(row.uid for row in copies)]
    assert sum(result.counts["rejected"].values()) == 9_999
    if config == NEAR:
        # Each band key lists each copy once: work grows with the copies, not with their pairs.
        assert result.counts["near"]["candidates"] == 14 * 10_000


def crawl():
    rows = [document(n, prose(n, words=40 + n)) for n in range(60)]
    rows += [replace(document(100 + n, rows[n].text), date=n) for n in range(0, 60, 5)]
    rows += [document(200 + n, edited(rows[n].text, 3, 4)) for n in range(30)]
    return rows


def test_no_order_of_documents_parts_or_ranges_changes_a_decision(run_dedup):
    rows = crawl()
    expected = None
    for trial in range(10):
        shuffled = random.Random(trial).sample(rows, len(rows))
        cut = sorted(random.Random(trial).sample(range(len(rows)), 3))
        parts = [shuffled[i:j] for i, j in itertools.pairwise([0, *cut, len(rows)])]
        result = run_dedup(parts, {}, shards=1 + trial % 4, reverse=bool(trial % 2))
        decided = {row.uid: (row.reason, row.detail) for row in result.rejections().values()}
        clusters = sorted(map(repr, result.clusters("exact") + result.clusters("near")))
        expected = expected or (decided, clusters)
        assert (decided, clusters) == expected
    assert {reason for reason, _ in expected[0].values()} == {"exact_duplicate", "near_duplicate"}


def test_units_in_any_order_give_the_same_bytes(run_dedup):
    rows = crawl()
    parts = [rows[:30], rows[30:], []]
    assert run_dedup(parts, {}, shards=3).tree() == run_dedup(parts, {}, shards=3, reverse=True).tree()


def test_sizes_of_clusters_add_up(run_dedup):
    result = run_dedup([crawl()], {})
    for kind in ("exact", "near"):
        rows = result.clusters(kind)
        names = {row["cluster"] for row in rows}
        assert all(min(row["uid"] for row in rows if row["cluster"] == name) == name for name in names)
        assert len(names) == sum(row["kept"] for row in rows) == result.counts[kind]["clusters"]
        assert len(rows) - len(names) == result.counts["rejected"][f"{kind}_duplicate"]


def test_nothing_to_do_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="leave the key"):
        validate(DedupConfig, {"exact": None, "near": None}, "test")
    with pytest.raises(ConfigurationError, match=r"did you mean .near\.verify"):
        validate(DedupConfig, {"near": {"verfy": 1}}, "test")


def test_bundles_of_many_parts_and_ranges_change_no_byte(run_dedup, monkeypatch):
    rows = [document(n, prose(n % 13) + " more" * (n % 4)) for n in range(60)]
    parts = [rows[start::7] for start in range(7)]
    plain = run_dedup(parts, {}, shards=5)
    monkeypatch.setattr(shuffle, "_GROUP", 2)
    monkeypatch.setattr(shuffle, "_FEWEST", 4)
    bundled = run_dedup(parts, {}, shards=5, reverse=True)
    assert len(list((bundled.folder / "tmp" / "near-keys-bundles").iterdir())) == 4
    assert len(list((bundled.folder / "tmp" / "exact-drops-bundles").iterdir())) == 3
    assert bundled.tree() == plain.tree()
    assert bundled.counts == plain.counts
    assert plain.counts["rejected"].keys() == {"exact_duplicate", "near_duplicate"}
