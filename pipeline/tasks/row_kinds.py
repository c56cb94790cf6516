"""The rows that each head of a task learns from."""

from __future__ import annotations

from typing import Any, Final

from pipeline.task_readers import HeadName
from pipeline.tasks.answer_rows import AnswerRows
from pipeline.tasks.choice_rows import ChoiceRows
from pipeline.tasks.labelled_rows import LabelledRows
from pipeline.tasks.tagged_rows import TaggedRows
from pipeline.tasks.target_rows import TargetRows
from pipeline.tasks.task_rows import TaskRows

__all__ = ["ROW_KINDS"]

ROW_KINDS: Final[dict[HeadName, type[TaskRows[Any]]]] = {
    "classification": LabelledRows,
    "regression": LabelledRows,
    "tagging": TaggedRows,
    "span": AnswerRows,
    "lm": TargetRows,
    "multiple_choice": ChoiceRows,
}
"""Head to the rows for it."""
