"""The recipes of published models: what their `corrupt` asks for is made, whole, and gives back its samples."""

from pathlib import Path

import pyarrow as pa
import pytest

from clozeline.configuration.config import read_composed
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.token_set import TOKEN_COUNTS_FILE, TOKEN_COUNTS_SCHEMA, write_table
from clozeline.tools.shards.validate_shards import main as validate_shards
from tests.pipeline.token_sets import WORDS, recipe, run_stage, write_token_set

RECIPES = sorted((Path(__file__).parents[3] / "configs" / "recipes").glob("*/pipeline.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.parent.name)
def test_makes_sets_that_give_back_their_samples(path, tmp_path):
    write_token_set(tmp_path, [2 + (370 * document) % 1300 for document in range(24)])
    counts = pa.table(
        [pa.array(range(WORDS.size), pa.uint32()), pa.array([1] * WORDS.size, pa.uint64())], TOKEN_COUNTS_SCHEMA
    )
    write_table(tmp_path / "encode" / TOKEN_COUNTS_FILE, counts, TOKEN_COUNTS_SCHEMA)
    entries = [
        {**entry, "variants": min(2, entry.get("variants", 1))} for entry in read_composed(Recipe, path)["corrupt"]
    ]
    for entry in entries:
        entry.pop("language_tokens", None)  # this vocabulary has no tokenizer, whose pieces they name
    made = recipe(tmp_path, entries, heldout=0.3)
    run_stage(made, "group")
    found = run_stage(made, "corrupt")["objectives"]
    assert len(found) == len(entries)
    for label, splits in found.items():
        for split, counts in splits.items():
            examples = tmp_path / "corrupt" / label / split
            samples = tmp_path / "group" / open_shards(examples).manifest.parents[0].name
            assert counts["examples"] == counts["samples_in"] > 0
            assert validate_shards([str(examples), "--against", str(samples)]) == 0
