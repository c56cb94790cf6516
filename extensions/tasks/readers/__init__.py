"""Readers of labeled tasks: parse the files of a task collection as their authors publish them.

Every row of a file becomes an item or is counted with a reason. A row never stops the file, and
layouts are never guessed.
"""

from clozeline.extensions.tasks.readers._reader import (
    TASK,
    TaskMetadata,
    TaskReader,
    is_task,
    read_task_metadata,
)
from clozeline.extensions.tasks.readers._task_items import (
    Choices,
    Dialogue,
    LabeledText,
    Question,
    SourceTarget,
    TaggedWords,
    TaskItem,
    TemplatePart,
    Unfit,
    answer_runs,
)
from clozeline.pipeline.tables import Rejected, Row, RowFile, iterate_strings

__all__ = [
    "TASK",
    "Choices",
    "Dialogue",
    "LabeledText",
    "Question",
    "Rejected",
    "Row",
    "RowFile",
    "SourceTarget",
    "TaggedWords",
    "TaskItem",
    "TaskMetadata",
    "TaskReader",
    "TemplatePart",
    "Unfit",
    "answer_runs",
    "is_task",
    "iterate_strings",
    "read_task_metadata",
]
