"""Readers of labelled tasks: files as their authors publish them become texts with labels. One task collection a file.

Every row of a file is given or counted with a reason; none stops the file, and no layout is guessed.
"""

from clozeline.pipeline.tasks.readers._reader import HeadName, Layout, TaskFacts, TaskFile, TaskReader, facts_of
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
)

__all__ = ["Choices", "Dialogue", "HeadName", "LabeledText", "Layout", "Part", "Question", "Rejected", "SourceTarget",
           "TaggedWords", "TaskFacts", "TaskFile", "TaskItem", "TaskReader", "answer_runs", "facts_of"]  # fmt: skip
