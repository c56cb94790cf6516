from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.pipeline.tasks.head_rows import PairRows
from clozeline.pipeline.tasks.readers import LabeledText, TaskFacts
from clozeline.pipeline.tasks.task_rows import FRAMES, Form
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from tests.pipeline.task_files import write_vocabulary

FACTS = TaskFacts(name="toy", head="similarity", metrics=("spearman",), texts=2, high=5.0, alike=4.0)


def test_both_texts_have_a_frame_of_their_own(tmp_path: Path) -> None:
    """`[CLS] a [SEP]` twice, each cut for itself; a text without tokens is counted."""
    words = import_tokenizer(write_vocabulary(tmp_path / "words"), tmp_path / "ours")
    kind = PairRows(FACTS, Form(FRAMES["bert"], 8), words, "corpus", "f")
    short, long = "a film", "not a good film with one plot very"
    rows = kind.rows([
        LabeledText((short, long), None, 4.5, 0), LabeledText(("a", "\u0300"), None, 1.0, 1)
    ])  # fmt: skip
    first, second = (one.ids.tolist() for one in words.encode([short, long]))
    (row,) = rows
    assert row["input_ids"].tolist() == [2, *first, 3]
    assert row["input_ids_b"].tolist() == [2, *second[:6], 3]
    assert row["target"].tolist() == [pytest.approx(4.5)]
    assert kind.counts["refused"] == {"no_tokens": 1}
    assert (kind.counts["truncated"], kind.counts["truncated_tokens"]) == (1, len(second) - 6)
