"""Token counts find their way from the stage encode to the objective that draws by them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.token_set import TOKEN_COUNTS_FILE, TOKEN_COUNTS_SCHEMA, write_table
from clozeline.pipeline.tokenize.tokenizers import vocabulary_of
from clozeline.tools.shards.validate_shards import main
from tests.pipeline.token_sets import WORDS, recipe, run_stage, write_token_set

ENTRY = {"name": "replaced_token_detection", "replacement": "unigram", "max_length": 34}
COUNTS = (np.arange(WORDS.size) ** 2).astype(np.uint64)


def write_counts(out: Path, counts: np.ndarray) -> None:
    table = pa.table([pa.array(np.arange(len(counts)), pa.uint32()), pa.array(counts)], schema=TOKEN_COUNTS_SCHEMA)
    write_table(out / "encode" / TOKEN_COUNTS_FILE, table, TOKEN_COUNTS_SCHEMA)


def test_the_stage_draws_by_the_counts_of_the_token_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_token_set(tmp_path, [40] * 30)
    write_counts(tmp_path, COUNTS)
    made = recipe(tmp_path, [ENTRY])
    run_stage(made, "group")
    run_stage(made, "corrupt")
    examples = open_shards(tmp_path / "corrupt" / "replaced_token_detection" / "train")
    assert examples.manifest.objective is not None
    assert examples.manifest.objective.heads == ("token",)
    objective = build_objective(ENTRY, replace(WORDS, token_counts=COUNTS))
    folder = tmp_path / "group" / objective.grouping.label / "train"
    samples = open_shards(folder)
    rows = Rows.concatenate([samples.read_block(block) for block in range(len(samples.index))])
    wanted, _ = objective.corrupt(rows, np.zeros(len(rows), np.uint16), 1)
    found = Rows.concatenate([examples.read_block(block) for block in range(len(examples.index))])
    assert (found.columns["input_ids"].values == wanted.columns["input_ids"].values).all()
    (tmp_path / "encode" / TOKEN_COUNTS_FILE).unlink()  # undoing needs none
    assert main([str(examples.path), "--against", str(folder)]) == 0
    assert "restored" in capsys.readouterr().out


def test_without_counts_the_stage_says_what_is_missing(tmp_path: Path) -> None:
    write_token_set(tmp_path, [40] * 30)
    made = recipe(tmp_path, [ENTRY])
    run_stage(made, "group")
    with pytest.raises(ConfigurationError, match=r"token_counts\.arrow"):
        run_stage(made, "corrupt")


def test_counts_of_another_vocabulary_are_not_taken(tmp_path: Path) -> None:
    write_token_set(tmp_path, [40] * 3)
    write_counts(tmp_path, COUNTS[:10])
    assert vocabulary_of(tmp_path / "encode" / "manifest.json", WORDS.fingerprint).token_counts is None
