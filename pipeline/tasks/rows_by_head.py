"""Map each task head and model architecture to its row builder, and open the writer of a task set."""

from typing import Any, Final

from clozeline.pipeline.shards import SetWriter
from clozeline.pipeline.tasks.generation_rows import TargetRows, TurnRows
from clozeline.pipeline.tasks.labeled_rows import ChoiceRows, LabeledRows, PairRows
from clozeline.pipeline.tasks.readers import HeadName, TaskFacts
from clozeline.pipeline.tasks.special_token_templates import Architecture
from clozeline.pipeline.tasks.task_rows import Form, TaskRows
from clozeline.pipeline.tasks.window_rows import AnswerRows, TaggedRows
from clozeline.pipeline.vocabulary import Vocabulary

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


def set_writer(facts: TaskFacts, split: str, form: Form, vocabulary: Vocabulary) -> SetWriter:
    """Return the writer of the set of one split."""
    row_type = ROW_TYPES[facts.head, form.frame.architecture]
    features, length = row_type.features(facts, form.frame), form.max_length * row_type.per_token
    path = f"{facts.name}/{split}"
    return SetWriter.of_rows(path, 1, features, vocabulary, length, "auto", {"task": path})
