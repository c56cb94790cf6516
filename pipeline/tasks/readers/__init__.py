"""Readers of labeled tasks: parse the files of a task collection as their authors publish them.

Every row of a file becomes an item or is counted with a reason; no row stops the file and no layout is guessed.
"""

from clozeline.pipeline.tasks.readers._reader import TASK, HeadName, Layout, TaskFacts, TaskFile, TaskReader, facts_of
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
    answer_runs,
    keep_texts,
    strings_in,
)

__all__ = ["TASK", "Choices", "Dialogue", "HeadName", "LabeledText", "Layout", "Part", "Question", "Rejected",
           "SourceTarget", "TaggedWords", "TaskFacts", "TaskFile", "TaskItem", "TaskReader", "answer_runs",
           "facts_of", "keep_texts", "strings_in"]  # fmt: skip
