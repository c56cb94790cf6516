"""The tables name what the set holds; the page needs no other file."""

import pytest

from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.shard_stats import main
from tests.tools.small_run import example_sets, plain_text


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.parametrize("label", ["masked_lm", "span_corruption", "bart", "causal_lm"])
def test_figures_of_example_sets(shard_sets, label, capsys):
    manifest = example_sets(shard_sets)[label][0]
    assert main([str(manifest)]) == 0
    shown = plain_text(capsys.readouterr().out)
    totals = open_shards(manifest).manifest.totals
    assert f"rows {totals.samples:,} tokens {totals.tokens:,}" in shown
    assert f"en {totals.tokens:,} 100.00" in shown
    assert ("% of input_ids" in shown) == (label != "causal_lm")
    assert "vocabulary coverage" in shown
    assert ("rows by variant variant rows" in shown) == (label == "masked_lm")


def test_token_and_sample_sets_have_figures_too(shard_sets, capsys):
    for manifest in (shard_sets / "encode", example_sets(shard_sets)["bart"][1]):
        assert main([str(manifest)]) == 0
    shown = plain_text(capsys.readouterr().out)
    assert "sentence_starts" in shown
    (count,) = open_shards(shard_sets / "encode").manifest.totals.tokens_by_source.values()
    assert f"default {count:,} 100.00" in shown
