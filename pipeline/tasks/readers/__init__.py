"""Readers of labeled tasks: parse the files of a task collection as their authors publish them.

Every row of a file becomes an item or is counted with a reason; no row stops the file and no layout is guessed.
"""

from clozeline.pipeline.tasks.readers._column_files import Row, TaskFile
from clozeline.pipeline.tasks.readers._reader import TASK, HeadName, TaskFacts, TaskReader, facts_of, is_task
from clozeline.pipeline.tasks.readers._task_items import (
    Choices,
    Dialogue,
    LabeledText,
    Part,
    Question,
    Rejected,
    SourceTarget,
    TaggedWords,
    TaskItem,
    Unfit,
    answer_runs,
    strings_in,
)

__all__ = ["TASK", "Choices", "Dialogue", "HeadName", "LabeledText", "Part", "Question", "Rejected", "Row",
           "SourceTarget", "TaggedWords", "TaskFacts", "TaskFile", "TaskItem", "TaskReader", "Unfit", "answer_runs",
           "facts_of", "is_task", "strings_in"]  # fmt: skip
