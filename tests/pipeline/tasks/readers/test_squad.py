from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Question, Rejected
from clozeline.pipeline.tasks.splits import exclude_overlaps, keys_of
from tests.pipeline.tasks.readers.reading import items_of, published, reader_of, reasons, with_data, written


def file_of(folder: Path, *asked: dict[str, Any], context: Any = "Ada wrote. Ada sang.", version: str = "1.1") -> Path:
    article = {"title": "Ada", "paragraphs": [{"context": context, "qas": list(asked)}]}
    return written(folder, json.dumps({"version": version, "data": [article]}), "train.json")


def asked(text: str = "Ada", start: int = 11, **more: Any) -> dict[str, Any]:
    return {"id": "1", "question": "Who sang?", "answers": [{"text": text, "answer_start": start}], **more}


def test_questions(tmp_path: Path) -> None:
    reader = reader_of("squad")
    path = file_of(tmp_path, asked(answers=[{"text": "Ada", "answer_start": at} for at in (11, 0)]))
    assert reader.open(path).layout == "SQuAD 1.1"
    item = Question("Who sang?", "Ada wrote. Ada sang.", ((11, "Ada"), (0, "Ada")), "1", 0, "article Ada")
    assert items_of(reader, path) == [item]
    assert item.overlap_texts == (item.context,)
    assert reader.facts.unanswerable is False


def test_questions_without_an_answer(tmp_path: Path) -> None:
    """Plausible answers are none, and those of a question that is marked impossible neither."""
    none = {"id": "2", "question": "Why?", "answers": [], "is_impossible": True, "plausible_answers": [{"text": "x"}]}
    path = file_of(tmp_path, none, asked(is_impossible=True), version="v2.0")
    assert reasons(items_of(reader_of("squad"), path)) == {"no_answer": 2}
    reader = reader_of("squad", unanswerable=True)
    assert [item.answers for item in items_of(reader, path)] == [(), ()]
    assert reader.facts.unanswerable is True


@pytest.mark.parametrize(
    ("question", "context", "reason"),
    [
        (asked("Ada", 10), "Ada wrote. Ada sang.", "answer_not_found"),
        (asked("Ada", -9), "Ada wrote. Ada sang.", "answer_not_found"),
        (asked(" ", 10), "Ada wrote. Ada sang.", "fields"),
        ({**asked(), "id": None}, "Ada wrote. Ada sang.", "fields"),
        ({**asked(), "question": " "}, "Ada wrote. Ada sang.", "fields"),
        ({**asked(), "answers": "Ada"}, "Ada wrote. Ada sang.", "fields"),
        ({**asked(), "answers": [3]}, "Ada wrote. Ada sang.", "fields"),
        (asked(), None, "fields"),
    ],
    ids=["place", "negative", "blank", "key", "question", "answers", "answer", "context"],
)
def test_refused_questions(tmp_path: Path, question: dict[str, Any], context: Any, reason: str) -> None:
    assert items_of(reader_of("squad"), file_of(tmp_path, question, context=context)) == [Rejected(reason, 0)]


@pytest.mark.parametrize("text", ['{"data": []}', "[1]", '{"data": [1]}', '{"data": 3}'])
def test_files_of_another_layout(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"expected SQuAD's layout"):
        reader_of("squad").open(written(tmp_path, text))


@pytest.mark.data
@with_data
@pytest.mark.parametrize(
    ("file", "questions", "without_answer", "rejected"),
    [("squad_v2_dev_part", 3457, 1745, {}), ("xquad.en", 1190, 0, {}), ("xquad.th", 1190, 0, {}),
     ("cmrc2018_trial", 1002, 0, {"answer_not_found": 5, "fields": 2})],
)  # fmt: skip
def test_real_files(file: str, questions: int, without_answer: int, rejected: dict[str, int]) -> None:
    items = items_of(reader_of("squad", unanswerable=True), published(f"squad/{file}.json.zst"))
    assert reasons(items) == rejected
    assert len(items) == questions
    assert sum(not isinstance(item, Rejected) and not item.answers for item in items) == without_answer


@pytest.mark.data
@with_data
def test_articles_of_both_sets_are_excluded() -> None:
    """All 9 articles of the part of SQuAD are among the 48 of XQuAD: 39 are left."""
    items = items_of(reader_of("squad"), published("squad/xquad.en.json.zst"))
    part = items_of(reader_of("squad", unanswerable=True), published("squad/squad_v2_dev_part.json.zst"))
    left = [item for item in exclude_overlaps(items, keys_of(part)) if isinstance(item, Question)]
    assert len({item.group for item in items}) == 48
    assert len({item.group for item in left}) == 39
    assert not {item.context for item in left} & {item.context for item in part}
