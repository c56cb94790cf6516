from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.tools.runs.evaluation.predictions import collect_predictions, predict_share, set_rows
from tests.pipeline.task_files import make_sets
from tests.shard_sets import fixed

FACTS = TaskFacts(name="toy", head="classification", labels=("0", "1"), metrics=("accuracy",))
ROWS = Rows(fixed(np.arange(3)), {"label": Ragged.from_lists([[1], [0], [1]], np.uint16)})


def test_shares_become_one_in_the_order_of_the_set() -> None:
    found = collect_predictions([{2: 1}, {0: 0, 1: 0}], ROWS, FACTS)
    assert (found.answers.tolist(), found.predicted.tolist()) == ([1, 0, 1], [0, 0, 1])


def test_a_row_counts_once() -> None:
    with pytest.raises(IntegrityError, match="1 rows were predicted twice, first row 1"):
        collect_predictions([{0: 1, 1: 0}, {1: 0, 2: 1}], ROWS, FACTS)
    with pytest.raises(IntegrityError, match="1 of 3 rows were not predicted, first row 2"):
        collect_predictions([{0: 1, 1: 0}], ROWS, FACTS)


def test_a_prediction_that_is_no_number() -> None:
    with pytest.raises(IntegrityError, match="1 rows got no finite number, first row 2"):
        collect_predictions([{0: 1, 1: 0, 2: float("nan")}], ROWS, FACTS)


class _Known(torch.nn.Module):
    """Gives the same scores to every row."""

    def __init__(self, scores: list[float]) -> None:
        super().__init__()
        self.scores = scores

    def logits(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"classification": torch.tensor([self.scores] * len(batch["input_ids"]))}


@pytest.mark.parametrize(
    ("scores", "expected"), [([0.0, 1.0], 1.0), ([2.0, 1.0], 0.0), ([1.0, math.nan], None)], ids=["one", "zero", "nan"]
)
def test_scores_that_are_no_numbers_name_no_class(tmp_path: Path, scores: list[float], expected: float | None) -> None:
    shards = open_shards(make_sets(tmp_path) / "dev")
    found = predict_share(_Known(scores), shards, set_rows(shards), "classification", 0, 1)
    assert sorted(found) == list(range(21))
    if expected is None:
        assert all(map(math.isnan, found.values()))
    else:
        assert set(found.values()) == {expected}
