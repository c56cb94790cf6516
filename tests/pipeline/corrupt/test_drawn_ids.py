"""Texts of four letters through the pipeline: random replacements are letters, with every
tokenizer."""

import json
import random

import numpy as np
import pytest

from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from tests.pipeline.miniature import write_recipe
from tests.pipeline.token_sets import all_rows

TOKENIZERS = {
    "character": "{name: character, size: 411, options: {}}",
    "few": "{name: character, size: 11, options: {sentinels: 0, modes: false, reserved: 0, bytes: "
    "false}}",
    "byte_bpe": "{name: byte_bpe, size: 420}",
    "unigram": "{name: unigram, size: 420}",
}


def run_dna(tmp_path, name):
    """Return the tokenizer of a pipeline over four letters, and the ids that occur."""
    draw = random.Random(2)
    lines = [json.dumps({"text": "".join(draw.choices("ACGT", k=300))}) for _ in range(40)]
    (tmp_path / "dna.jsonl").write_text("\n".join(lines) + "\n")
    recipe = write_recipe(
        tmp_path,
        f"""
        {{corpus: dna, heldout: {{fraction: 0}}, output: {tmp_path}/out, input: {tmp_path}/dna.jsonl,
        clean: {{language: null, filters: []}},
        train_tokenizer: {TOKENIZERS[name]}, encode: {{}}, group: {{}}, corrupt: [
        {{name: masked_lm, max_length: 64, mask_share: 0.0, random_share: 1.0}},
        {{name: replaced_token_detection, max_length: 64, replacement: uniform}}]}}
    """,
    )

    assert main(["--config", str(recipe), "--quiet"]) == 0

    tokenizer = load_tokenizer(tmp_path / "out/train_tokenizer/tokenizer")
    return tokenizer, np.flatnonzero(open_shards(tmp_path / "out/encode").token_counts())


@pytest.mark.parametrize("name", TOKENIZERS)
def test_random_replacements_of_dna_are_pieces_of_dna(name, tmp_path):
    """Of 411 ids, 256 are bytes that no text has: nearly every replacement was one of them."""
    tokenizer, occurring = run_dna(tmp_path, name)

    for objective in ("masked_lm", "replaced_token_detection"):
        rows = all_rows(tmp_path / "out/corrupt" / objective / "train").columns
        inputs = rows["input_ids"]
        positions = rows["label_positions"]
        drawn = inputs.values[np.repeat(inputs.offsets[:-1], positions.lengths) + positions.values]

        assert len(drawn) > 100
        assert set(drawn.tolist()) <= set(occurring.tolist())
        assert set(tokenizer.decode(drawn)) <= set("ACGT")

        different = (drawn != rows["label_ids"].values).mean()

        assert different > 0.7, "uniform over the ids that occur: of four letters one in four stays"
