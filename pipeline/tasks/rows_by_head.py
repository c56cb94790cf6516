"""Map each task head and model architecture to its row builder, and open the writer of a task set."""

from typing import Any, Final

import numpy as np

from clozeline.pipeline.shards import SetWriter, base_columns, feature_columns
from clozeline.pipeline.shards.layout import block_rows_of
from clozeline.pipeline.tasks.answer_rows import AnswerRows
from clozeline.pipeline.tasks.choice_rows import ChoiceRows
from clozeline.pipeline.tasks.generation_rows import TargetRows, TurnRows
from clozeline.pipeline.tasks.labeled_rows import LabeledRows
from clozeline.pipeline.tasks.pair_rows import PairRows
from clozeline.pipeline.tasks.readers import HeadName, TaskFacts
from clozeline.pipeline.tasks.special_token_templates import Architecture
from clozeline.pipeline.tasks.tagged_rows import TaggedRows
from clozeline.pipeline.tasks.task_rows import Form, TaskRows
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
    features = row_type.features(facts, form.frame)
    id_bytes = np.dtype(vocabulary.id_dtype).itemsize
    return SetWriter(
        path=f"{facts.name}/{split}",
        shards=1,
        columns=[*base_columns(), *feature_columns(features, vocabulary.size)],
        block_rows=block_rows_of("auto", features, form.max_length * row_type.per_token, id_bytes),
        metadata={"task": f"{facts.name}/{split}", "tokenizer": vocabulary.fingerprint},
    )
