from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pipeline.shards import open_shards
from tests.tools.small_run import example_sets
from tools.shard_statistics.sources import find_sources
from tools.shard_statistics.tally import mean, named, quantile, tally


@pytest.mark.parametrize("label", ["masked_lm", "span_corruption"])
def test_counts_agree_with_a_loop_over_rows(shard_sets, label):
    shards = open_shards(example_sets(shard_sets)[label][0])
    found = tally(shards, find_sources(shards))
    lengths: dict[str, Counter] = {}
    ids: dict[str, Counter] = {}
    languages, variants = Counter(), Counter()
    for block in range(len(shards.index)):
        for row in shards.read_block(block):
            for name, values in row.columns.items():
                lengths.setdefault(name, Counter())[len(values)] += 1
                if name in found.ids:
                    ids.setdefault(name, Counter()).update(values.tolist())
            languages[int(row.fixed["language"])] += len(row["input_ids"])
            variants[int(row.fixed["variant"])] += 1
    as_counter = {name: Counter(dict(enumerate(counts.tolist()))) for name, counts in found.lengths.items()}
    assert {name: +counts for name, counts in as_counter.items()} == lengths
    assert {name: +Counter(dict(enumerate(counts.tolist()))) for name, counts in found.ids.items()} == ids
    assert set(ids) == {name for name in lengths if name.endswith("ids")}
    assert dict(enumerate(found.tokens_by_language.tolist())) == languages
    assert +Counter(dict(enumerate(found.codes["variant"].tolist()))) == variants
    assert named(found.tokens_by_language, shards.manifest.languages) == shards.manifest.totals.tokens_by_language
    assert sum(found.tokens_by_source.values()) == shards.manifest.totals.tokens
    assert set(found.tokens_by_source) == {"default"}


def test_sources_of_a_token_set_are_those_of_its_manifest(shard_sets):
    shards = open_shards(shard_sets / "encode")
    assert tally(shards, find_sources(shards)).tokens_by_source == shards.manifest.totals.tokens_by_source


def test_documents_that_no_token_set_knows_are_counted_as_unknown(shard_sets):
    shards = open_shards(example_sets(shard_sets)["masked_lm"][0])
    sources = find_sources(shards)
    half = len(sources.uids) // 2
    known = type(sources)(sources.names, sources.uids[:half], sources.codes[:half])
    counts = tally(shards, known).tokens_by_source
    assert set(counts) == {"default", "unknown"}
    assert sum(counts.values()) == shards.manifest.totals.tokens
    none = type(sources)(sources.names, sources.uids[:0], sources.codes[:0])
    assert tally(shards, none).tokens_by_source == {"unknown": shards.manifest.totals.tokens}


def test_quantiles_and_means_of_counts():
    values = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3])
    counts = np.bincount(values)
    assert mean(counts) == values.mean()
    for share in (0.1, 0.5, 0.9, 1.0):
        smallest = min(value for value in values if (values <= value).mean() >= share)
        assert quantile(counts, share) == smallest
    assert quantile(np.array([0, 2, 1, 1]), 0.5) == 1
