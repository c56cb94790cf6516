"""The registries of tasks: readers, rows and answers of heads, and their interfaces."""

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from clozeline.registry import Component, Registry

if TYPE_CHECKING:  # help lists algorithms without their interfaces
    from clozeline.extensions.tasks.readers import TaskReader
    from clozeline.extensions.tasks.rows import TaskRows
    from clozeline.extensions.tasks.task_heads._task_head import TaskHead

TASK_READERS: Registry["TaskReader"] = Registry(
    "clozeline.extensions.tasks.readers", "TaskReader", suffix="Reader", address="tasks/readers"
)
"""Readers of labeled data."""
TASK_ROWS: Registry["TaskRows[Any]"] = Registry(
    "clozeline.extensions.tasks.rows", "TaskRows", named_by="for_head", address="tasks/rows"
)
"""Rows of labeled data, by the head that they are for."""
TASK_HEADS: Registry["TaskHead"] = Registry(
    "clozeline.extensions.tasks.task_heads",
    "_task_head.TaskHead",
    named_by="of_head",
    address="heads",
)
"""What heads mean outside the model: predictions, gold answers, scores."""

TaskReaderComponent: TypeAlias = Annotated[Component["TaskReader"], TASK_READERS]
"""Type of a field that names a reader."""
