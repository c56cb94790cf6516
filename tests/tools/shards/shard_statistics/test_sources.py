from __future__ import annotations

from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.shard_statistics.sources import find_sources
from clozeline.tools.shards.shard_statistics.tally import tally
from tests.tools.small_run import example_sets


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
