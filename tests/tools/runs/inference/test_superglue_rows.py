"""Test files of SuperGLUE as they are published: a row for each line, question or answer, found again by its index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clozeline.pipeline.tasks.readers import Rejected
from tests.pipeline.tasks.readers.reading import reader_of, written

CASES: dict[str, dict[str, Any]] = {
    "boolq": {"question": "is it", "passage": "It is."},
    "cb": {"premise": "a", "hypothesis": "b"},
    "rte": {"premise": "a", "hypothesis": "b"},
    "axb": {"sentence1": "a", "sentence2": "b"},
    "axg": {"premise": "a", "hypothesis": "b"},
    "wic": {"word": "a", "sentence1": "a b", "sentence2": "a c"},
    "wsc": {"text": "Ada says she won", "target": {"span1_text": "Ada", "span1_index": 0, "span2_text": "she",
                                                    "span2_index": 2}},
    "copa": {"premise": "a", "choice1": "b", "choice2": "c", "question": "cause"},
}  # fmt: skip


@pytest.mark.parametrize("task", CASES)
def test_a_line_for_each_row(tmp_path: Path, task: str) -> None:
    """Test files have an idx and no label; every row has an index of its own, by which it is found again."""
    row, reader = CASES[task], reader_of("superglue", task=task)
    lines = [{**row, "idx": 7, "pair_id": 1}, {**row, "idx": 9, "label": "x", "pair_id": 1}]
    rows = reader.read_unlabeled(written(tmp_path, "".join(f"{json.dumps(line)}\n" for line in lines)))
    assert rows is not None
    items = list(rows)
    assert [(item.index, key) for item, key in items] == [(0, 7), (1, 9)]
    assert not any(isinstance(item, Rejected) for item, _ in items)


def test_answers_of_a_passage_share_a_line(tmp_path: Path) -> None:
    asked = [{"question": f"Who {number}?", "idx": 10 + number, "answers": [{"text": "Ada", "idx": 20 + 2 * number},
                                                                           {"text": "Bob", "idx": 21 + 2 * number}]}
             for number in range(2)]  # fmt: skip
    lines = [{"idx": number, "passage": {"text": "Ada met.", "questions": asked}} for number in (3, 4)]
    reader = reader_of("superglue", task="multirc")
    rows = reader.read_unlabeled(written(tmp_path, "".join(f"{json.dumps(line)}\n" for line in lines)))
    assert rows is not None
    items = list(rows)
    assert [item.index for item, _ in items] == list(range(8))
    assert [key for _, key in items] == [[passage, 10 + at // 2, 20 + at] for passage in (3, 4) for at in range(4)]


def test_queries_are_answered_by_texts(tmp_path: Path) -> None:
    row = {"idx": 1, "passage": {"text": "Ada met Bob.", "entities": []},
           "qas": [{"query": "@placeholder won", "idx": 5}, {"query": "@placeholder lost", "idx": 6}]}  # fmt: skip
    reader = reader_of("superglue", task="record")
    rows = reader.read_unlabeled(written(tmp_path, f"{json.dumps(row)}\n{{}}\n"))
    assert rows is not None
    (first, key), (second, _), (rejected, _) = rows
    assert (first.index, key, second.index) == (0, 5, 1)
    assert rejected == Rejected("fields", 2)
