from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clozeline.pipeline.tasks.head_rows import LabeledRows
from clozeline.pipeline.tasks.readers import LabeledText, Rejected, TaskFacts
from clozeline.pipeline.tasks.task_rows import FRAMES, Form
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from tests.pipeline.task_files import write_vocabulary

CLASSES = TaskFacts(name="toy", head="classification", labels=("no", "yes"), metrics=("accuracy",))
NUMBERS = TaskFacts(name="toy", head="regression", metrics=("pearson",), texts=2, low=0.0, high=5.0)


@pytest.fixture
def made(tmp_path: Path) -> LabeledRows:
    tokenizer = import_tokenizer(write_vocabulary(tmp_path / "words"), tmp_path / "ours")
    return LabeledRows(CLASSES, Form(FRAMES["bert"], 8), tokenizer, "corpus", "default/train.tsv")


def test_every_row_is_an_example_or_counted(made: LabeledRows) -> None:
    texts = [
        LabeledText(("a good film",), 1, None, 1),
        Rejected("fields", 2),
        LabeledText(("\u0300",), 0, None, 3),
        LabeledText(("a very bad film with no heart one dull plot",), 0, None, 4),
    ]
    rows = made.rows(texts)
    assert made.counts == {
        "rows_in": 4, "examples": 2, "refused": {"fields": 1, "no_tokens": 1}, "tokens": 5 + 8, "truncated": 1,
        "truncated_tokens": 4, "labels": {"yes": 1, "no": 1}, "windows": 0, "notes": {},
    }  # fmt: skip
    assert sorted(map(len, rows.columns["input_ids"])) == [5, 8]
    assert sorted(rows.columns) == ["input_ids", "label"]


def test_uids_follow_from_text_and_place_alone(made: LabeledRows) -> None:
    texts = [LabeledText(("a film",), 0, None, index) for index in range(5)]
    rows = made.rows(texts)
    assert len(set(rows.fixed["uid"].tolist())) == 5
    again = made.rows(texts[3:4])
    assert again.fixed["uid"][0] in rows.fixed["uid"]
    other = made.rows([LabeledText(("a good film",), 0, None, 3)])
    assert other.fixed["uid"][0] not in rows.fixed["uid"]
    assert other.fixed["document_uid"].tobytes() == again.fixed["document_uid"].tobytes()


def test_rows_are_in_the_order_of_their_hash(made: LabeledRows) -> None:
    """A file sorted by class gives blocks of both."""
    texts = [LabeledText((f"a film {'good ' * (index % 3)}",), index // 50, None, index) for index in range(100)]
    labels = made.rows(texts).columns["label"].values
    assert 15 < labels[:50].sum() < 35
    forward, backward = made.rows(texts), made.rows(texts[::-1])
    assert np.array_equal(forward.fixed["uid"], backward.fixed["uid"])


def test_pairs_have_segments_and_numbers(made: LabeledRows) -> None:
    made.facts = NUMBERS
    rows = made.rows([LabeledText(("a film", "one plot ."), None, 3.8, 1)])
    assert [feature.name for feature in LabeledRows.features(NUMBERS, FRAMES["bert"])] == list(rows.columns)
    assert rows.columns["segment_starts"][0].tolist() == [0, 4]
    assert rows.columns["target"].values.tolist() == [pytest.approx(3.8)]
    assert rows.columns["target"].values.dtype == np.float32
    assert [feature.name for feature in LabeledRows.features(NUMBERS, FRAMES["roberta"])] == ["input_ids", "target"]
