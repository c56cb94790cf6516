"""Rows of tasks, a file for each head: its columns, and how an item becomes examples."""

from typing import Any

from clozeline.errors import ConfigurationError
from clozeline.pipeline.registries import TASK_ROWS
from clozeline.pipeline.tasks.task_rows import Architecture, TaskRows

__all__ = ["TaskRows", "rows_of"]


def rows_of(head: str, architecture: Architecture) -> type[TaskRows[Any]]:
    """Return what builds the rows of a head for models of an architecture; ConfigurationError if nothing does."""
    kind = TASK_ROWS.load_class(head).for_architecture(architecture)
    if kind is None:
        raise ConfigurationError(
            f"tasks: the head {head} has no rows for the architecture {architecture}"
        )
    return kind
