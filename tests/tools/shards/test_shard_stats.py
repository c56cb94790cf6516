"""The tables name what the set holds; the page needs no other file."""

from __future__ import annotations

import re
import shutil

import pytest

from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.shard_stats import main
from tests.pages import checked
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


def test_the_page_has_the_tables(shard_sets, tmp_path, capsys):
    manifest = example_sets(shard_sets)["masked_lm"][0]
    assert main([str(manifest), "--html", str(tmp_path / "page.html")]) == 0
    page = checked((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert any("vocabulary coverage" in text for text in page.texts)
    assert "page: " in capsys.readouterr().out


def test_without_its_tokenizer_a_set_shows_ids(shard_sets, tmp_path, capsys):
    folder = shutil.copytree(example_sets(shard_sets)["masked_lm"][0].parent, tmp_path / "alone")
    assert main([str(folder)]) == 0
    shown = plain_text(capsys.readouterr().out)
    assert re.search(r"input_ids \d+ [\d.]+ \d+ \d+ \d+ 3 ", shown)  # 3 is the mask


def test_mistakes_end_in_one_message(shard_sets, tmp_path, capsys):
    assert main([]) == 64
    assert main([str(tmp_path)]) == 74
    broken = shutil.copytree(example_sets(shard_sets)["masked_lm"][0].parent, tmp_path / "broken")
    shard = next(broken.glob("shard-*"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    assert main([str(broken)]) == 65
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("error: ") for line in lines)
