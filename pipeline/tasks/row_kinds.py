"""The rows that each head of a task learns from in models of each architecture."""

from __future__ import annotations

from typing import Any, Final

from pipeline.task_readers import HeadName
from pipeline.tasks.answer_rows import AnswerRows
from pipeline.tasks.choice_rows import ChoiceRows
from pipeline.tasks.frames import Architecture
from pipeline.tasks.labelled_rows import LabelledRows
from pipeline.tasks.pair_rows import PairRows
from pipeline.tasks.tagged_rows import TaggedRows
from pipeline.tasks.target_rows import TargetRows
from pipeline.tasks.task_rows import TaskRows
from pipeline.tasks.turn_rows import TurnRows

ROW_KINDS: Final[dict[tuple[HeadName, Architecture], type[TaskRows[Any]]]] = {
    ("classification", "encoder"): LabelledRows,
    ("regression", "encoder"): LabelledRows,
    ("tagging", "encoder"): TaggedRows,
    ("span", "encoder"): AnswerRows,
    ("multiple_choice", "encoder"): ChoiceRows,
    ("similarity", "encoder"): PairRows,
    ("lm", "encoder_decoder"): TargetRows,
    ("lm", "decoder"): TurnRows,
}
"""Head and architecture of a frame to the rows for both."""
