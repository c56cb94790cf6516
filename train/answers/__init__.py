"""Meaning of heads outside the model, a file each: their tensors, and for heads of tasks predictions and scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.registry import find, names

if TYPE_CHECKING:  # it imports torch
    from clozeline.train.answers._answer import TaskAnswer


def answer_of(facts: TaskFacts, head: str | None = None) -> TaskAnswer:
    """Return the answers of a head: those of its own file, or of the file of the head that the task names."""
    answer: TaskAnswer = find(__name__, head if head in names(__name__) else facts.head)(facts)
    return answer
