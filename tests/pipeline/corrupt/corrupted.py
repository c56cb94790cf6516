from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from clozeline import registry
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards import ShardSet
from tests.pipeline.token_sets import recipe, run_stage, write_token_set

LENGTHS = [(31 * document) % 90 for document in range(120)]


def entry(name: str, **options: Any) -> dict[str, Any]:
    """An entry whose rows have 34 tokens."""
    fields = registry.find("clozeline.pipeline.corrupt.objectives", name).Options.__pydantic_fields__
    lengths = {key: 34 for key in ("max_length", "input_length") if key in fields}
    return {"name": name, **lengths, **options}


def run(out: Path, entries: list[Any], **options: Any) -> tuple[Recipe, dict[str, Any]]:
    """Group and corrupt a set of documents; returns the recipe and the counts."""
    write_token_set(out, LENGTHS)
    made = recipe(out, entries, heldout=0.3, **options)
    run_stage(made, "group")
    return made, run_stage(made, "corrupt")


def shard_rows(shards: ShardSet, shard: int) -> Rows:
    """All rows of one shard."""
    return Rows.concatenate([shards.read_block(b) for b in np.flatnonzero(shards.index.shard == shard).tolist()])


def same_rows(first: Rows, second: Rows) -> bool:
    """Return whether every column is equal."""
    return all((first.fixed[name] == second.fixed[name]).all() for name in first.fixed) and all(
        (first.columns[name].values == second.columns[name].values).all()
        and (first.columns[name].lengths == second.columns[name].lengths).all()
        for name in first.columns
    )
