"""Map each task head and model architecture to the class that builds its rows."""

from __future__ import annotations

from typing import Any, Final

from clozeline.pipeline.tasks.answer_rows import AnswerRows
from clozeline.pipeline.tasks.choice_rows import ChoiceRows
from clozeline.pipeline.tasks.generation_rows import TargetRows, TurnRows
from clozeline.pipeline.tasks.labeled_rows import LabeledRows
from clozeline.pipeline.tasks.pair_rows import PairRows
from clozeline.pipeline.tasks.readers import HeadName
from clozeline.pipeline.tasks.special_token_templates import Architecture
from clozeline.pipeline.tasks.tagged_rows import TaggedRows
from clozeline.pipeline.tasks.task_rows import TaskRows

ROW_TYPES: Final[dict[tuple[HeadName, Architecture], type[TaskRows[Any]]]] = {
    ("classification", "encoder"): LabeledRows,
    ("regression", "encoder"): LabeledRows,
    ("tagging", "encoder"): TaggedRows,
    ("span", "encoder"): AnswerRows,
    ("multiple_choice", "encoder"): ChoiceRows,
    ("similarity", "encoder"): PairRows,
    ("lm", "encoder_decoder"): TargetRows,
    ("lm", "decoder"): TurnRows,
}
