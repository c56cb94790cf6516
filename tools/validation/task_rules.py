"""Rules for rows of a task: one answer a row, and one that the task has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from pipeline.shards import Manifest
from pipeline.task_readers import facts_of
from tools.validation.lists import first_row
from tools.validation.located_rows import LocatedRows

__all__ = ["TASK_CHECKS"]

Problem = tuple[int, str]


def _answers(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require one class of the task, or one number in its range."""
    facts = facts_of(manifest)
    if facts is None:
        return
    name = "label" if facts.head == "classification" else "target"
    column = block.rows.columns[name]
    if (row := first_row(column.lengths != 1)) is not None:
        yield row, f"expected one {name}, got {column[row].tolist()}"
        return
    values = column.values
    if name == "label":
        wrong, known = values >= len(facts.labels), f"a class below {len(facts.labels)}"
    else:
        wrong = ~((values >= np.float32(facts.low)) & (values <= np.float32(facts.high)))
        known = f"a number from {facts.low:g} to {facts.high:g}"
    if (row := first_row(wrong)) is not None:
        yield row, f"expected {known} of the task {facts.name}, got {values[row]:g}"


TASK_CHECKS: Final[tuple[Callable[[LocatedRows, Manifest], Iterator[Problem]], ...]] = (_answers,)
