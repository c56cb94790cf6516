"""Meaning of heads outside the model, a file each: their tensors, and for heads of tasks predictions and scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.registry import find, names

if TYPE_CHECKING:  # it imports torch
    from clozeline.train.task_heads._task_head import TaskHead


def task_head_of(facts: TaskFacts, head: str | None = None) -> TaskHead:
    """Return the task head of a head: that of its own file, or of the file of the head that the task names."""
    task_head: TaskHead = find(__name__, head if head in names(__name__) else facts.head)(facts)
    return task_head
