"""Meaning of heads outside the model, a file each: their tensors, and for heads of tasks predictions and scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clozeline.pipeline.tasks.readers import TaskMetadata
from clozeline.train.registries import TASK_HEADS

if TYPE_CHECKING:  # it imports torch
    from clozeline.train.task_heads._task_head import TaskHead


def task_head_of(facts: TaskMetadata, head: str | None = None) -> TaskHead:
    """Return the task head of a head: that of its own file, or of the file of the head that the task names."""
    return TASK_HEADS.create(head if head in TASK_HEADS.available() else facts.head, facts)
