"""Build task rows, one file per head: its columns, and how an item becomes examples."""

from typing import Any

from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.registries import TASK_ROWS
from clozeline.extensions.tasks.sets.task_rows import Architecture, TaskRows

__all__ = ["TaskRows", "rows_of"]


def rows_of(head: str, architecture: Architecture) -> type[TaskRows[Any]]:
    """Return the class that builds the rows of a head for an architecture."""
    row_class = TASK_ROWS.load_class(head).for_architecture(architecture)
    if row_class is None:
        raise ConfigurationError(
            f"tasks: the head {head} has no rows for the architecture {architecture}"
        )
    return row_class
