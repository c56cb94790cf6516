"""Records of predictions; that they are those of `evaluate` is tested with the command `predict`."""

from __future__ import annotations

import doctest

import pytest
import torch

from clozeline.errors import IntegrityError
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.tools.runs.inference import row_predictions


def test_examples() -> None:
    assert doctest.testmod(row_predictions).failed == 0


@pytest.mark.parametrize("several", [False, True])
def test_scores_that_are_no_numbers_name_no_class(several: bool) -> None:
    facts = TaskFacts(name="t", head="classification", labels=("a", "b"), metrics=(), multi_label=several)
    with pytest.raises(IntegrityError, match="the weights are unusable"):
        row_predictions._read_classes(torch.tensor([[0.0, torch.nan]]), {}, None, facts=facts)  # type: ignore[arg-type]
