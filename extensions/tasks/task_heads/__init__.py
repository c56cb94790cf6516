"""Task heads: what heads mean outside the model: predictions and scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clozeline.extensions.tasks.readers import TaskMetadata
from clozeline.extensions.tasks.registries import TASK_HEADS

if TYPE_CHECKING:  # it imports torch
    from clozeline.extensions.tasks.task_heads._task_head import TaskHead


def task_head_of(metadata: TaskMetadata, head: str | None = None) -> TaskHead:
    """Return the task head of `head` if it has one, else the task head of the task."""
    return TASK_HEADS.create(head if head in TASK_HEADS.available() else metadata.head, metadata)
