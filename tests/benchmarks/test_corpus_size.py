"""The corpora of several sizes: no text is a near duplicate of another, and the recipe has all stages of documents."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from benchmarks.corpus_size import _iter_texts, write_recipe
from clozeline.pipeline.dedup.near import MinHash
from clozeline.pipeline.execution.stages import check_recipe, stages_of
from clozeline.pipeline.recipe import load_recipe


def test_no_two_texts_share_a_band_key() -> None:
    minhash = MinHash(ngram=5, bands=14, rows=8, seed=1)
    texts = list(islice(_iter_texts(), 1500))  # three of each text that they are made of
    keys = [{(band, int(key)) for band, key in enumerate(minhash.band_keys(minhash.signature(text)))} for text in texts]
    assert len(set.union(*keys)) == 14 * len(texts)


def test_the_recipe_is_valid_with_every_type_of_duplicates(tmp_path: Path) -> None:
    types = ["exact", "near", "lines", "spans"]
    plain = [f"input={tmp_path}/crawl.jsonl", f"output={tmp_path}/out"]
    (tmp_path / "crawl.jsonl").write_text('{"text": "a"}\n', encoding="utf-8")
    recipe = load_recipe(write_recipe(tmp_path, "resiliparse", types), plain)
    check_recipe(recipe)
    assert {"decontaminate", "balance", "corrupt"} < set(stages_of(recipe))
    assert all(getattr(recipe.config_of("dedup"), name) is not None for name in types)
    assert load_recipe(write_recipe(tmp_path, "resiliparse", ["exact"]), plain).config_of("dedup").near is None
