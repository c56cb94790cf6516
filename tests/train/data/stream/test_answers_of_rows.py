"""Numbers that rows have for their answers reach the batches as they are, in every epoch and across blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clozeline.pipeline.rows import Ragged, Rows
from clozeline.train.data.stream.stream import Stream
from tests.shard_sets import IDS, fixed, list_column, objective, write_set

TARGET = list_column("target", "float32")


def answered(uids: range, ragged: bool) -> Rows:
    """Rows whose first token is 8 times their number."""
    ids = [[uid, *[9] * (uid % 3 if ragged else 2)] for uid in uids]
    lists = {"input_ids": Ragged.from_lists([np.array(row) for row in ids], np.uint16)}
    lists["target"] = Ragged.from_lists([np.array([uid / 8]) for uid in uids], np.float32)
    return Rows(fixed(np.array(uids)), lists)


@pytest.mark.parametrize("ragged", [False, True], ids=["equal rows", "rows of all lengths"])
@pytest.mark.parametrize("by_length", [False, True], ids=["in order", "by length"])
def test_numbers_keep_their_fractions(tmp_path: Path, ragged: bool, by_length: bool) -> None:
    """Blocks of 4 rows that no global batch of 6 fits, for more than two epochs."""
    facts = {**objective("encoder"), "heads": ["regression"]}
    shards = write_set(
        tmp_path,
        [answered(range(11, 30), ragged), answered(range(30, 42), ragged)],
        columns=(IDS, TARGET),
        objective=facts,
    )
    options: Any = {"lanes": 2, "seed": 3, "global_batch": 6, "micro_batch": 3, "io_threads": 0, "by_length": by_length}
    seen: list[int] = []
    with Stream(shards, rank=0, world_size=1, **options) as stream:
        for _ in range(13):
            for batch in stream.next_step():
                kept = batch.row_weight > 0
                first, target = batch.tensors["input_ids"][kept, 0], batch.tensors["target"][kept]
                assert target.tolist() == (first / 8).tolist()
                seen += first.tolist()
    assert set(seen) == set(range(11, 42))
