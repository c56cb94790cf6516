from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clozeline.pipeline.tasks.head_rows import ChoiceRows
from clozeline.pipeline.tasks.readers import Choices, Rejected, TaskFacts
from clozeline.pipeline.tasks.task_rows import FRAMES, Form
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from tests.pipeline.task_files import write_vocabulary

FACTS = TaskFacts(name="toy", head="multiple_choice", metrics=("accuracy",), texts=2)
CLS, SEP = 2, 3


@pytest.fixture
def words(tmp_path: Path) -> Tokenizer:
    return import_tokenizer(write_vocabulary(tmp_path / "words"), tmp_path / "ours")


def test_each_choice_is_framed_with_the_context(words: Tokenizer) -> None:
    """`[CLS] context [SEP] choice [SEP]`, each cut for itself."""
    kind = ChoiceRows(FACTS, Form(FRAMES["bert"], 8), words, "corpus", "f")
    context, short, long = "a film", "bad", "not a good film with one plot"
    rows = kind.rows([Choices(context, (short, long), 1, 0)])
    first, second, third = (one.ids.tolist() for one in words.encode([context, short, long]))
    row = next(iter(rows))
    expected = [CLS, *first, SEP, *second, SEP], [CLS, *first, SEP, *third[:3], SEP]
    assert row["input_ids"].tolist() == [*expected[0], *expected[1]]
    assert row["choice_starts"].tolist() == [0, 6]
    assert row["segment_starts"].tolist() == [0, 4, 6, 10]
    assert row["choice"].tolist() == [1]
    assert kind.counts["truncated_tokens"] == len(third) - 3
    assert kind.counts["labels"] == {"1": 1}


def test_rows_without_tokens_are_counted(words: Tokenizer) -> None:
    kind = ChoiceRows(FACTS, Form(FRAMES["roberta"], 16), words, "corpus", "f")
    rows = kind.rows([
        Choices("a", ("film", "\u0300"), 0, 0), Choices("\u0300", ("a", "film"), 0, 1), Rejected("fields", 2),
        Choices("a", ("film", "bad", "good"), 2, 3),
    ])  # fmt: skip
    assert kind.counts["refused"] == {"no_tokens": 2, "fields": 1}
    assert sorted(rows.columns) == ["choice", "choice_starts", "input_ids"]
    assert rows.columns["choice_starts"].values.tolist() == [0, 6, 12]
    assert rows.columns["choice_starts"].values.dtype == np.uint32
