"""Windows of questions against a slow search by characters; the places that are read, and what is counted."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from clozeline.pipeline.tasks.config import FrameName
from clozeline.pipeline.tasks.readers import Question, Rejected, TaskFacts
from clozeline.pipeline.tasks.task_rows import FRAMES, Form
from clozeline.pipeline.tasks.window_rows import AnswerRows
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from tests.pipeline.task_files import WORDS, write_vocabulary

FACTS = TaskFacts(name="squad", head="span", metrics=("f1", "exact_match"), texts=2)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return import_tokenizer(write_vocabulary(tmp_path / "words"), tmp_path / "ours")


def made(tokenizer: Tokenizer, length: int, stride: int | None = None, frame: FrameName = "bert") -> AnswerRows:
    return AnswerRows(FACTS, Form(FRAMES[frame], length, stride), tokenizer, "corpus", "f.json")


def question(seed: int, words: int) -> Question:
    draw = random.Random(seed)
    chosen = draw.choices(WORDS[:-1], k=words)
    first = draw.randrange(words)
    last = min(words - 1, first + draw.randrange(3))
    start = len(" ".join(chosen[:first])) + (first > 0)
    return Question("a good film", " ".join(chosen), ((start, " ".join(chosen[first : last + 1])),), str(seed), seed)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("length", "stride"), [(12, None), (14, 3), (64, None)])
def test_places_lead_to_characters(tokenizer: Tokenizer, seed: int, length: int, stride: int | None) -> None:
    item = question(seed, 20)
    kind = made(tokenizer, length, stride)
    rows = kind.rows([item])
    owned, answered = [], 0
    for row in rows:
        offsets = row["offsets"].reshape(-1, 2).tolist()
        places = row["answer_places"].tolist()
        begin = places[1]
        assert row["input_ids"][:begin].tolist() == [2, *(tokenizer.encode([item.question])[0].ids), 3]
        assert row["segment_starts"].tolist() == [0, begin]
        assert places == [0, *range(begin, len(row["input_ids"]) - 1)]
        words = [item.context[first:last] for first, last in offsets[begin:-1]]
        assert [tokenizer.encode([word])[0].ids.tolist() for word in words] == [
            [one] for one in row["input_ids"][begin:-1]
        ]
        assert set(row["owned_places"].tolist()) <= set(places[1:])
        owned += [offsets[index][0] for index in row["owned_places"]]
        first, last = row["answer_span"].tolist()
        start, text = item.answers[0]
        inside = offsets[begin][0] <= start and start + len(text) <= offsets[-2][1]
        assert (last > 0) == inside
        if inside:
            answered += 1
            assert item.context[offsets[first][0] : offsets[last][1]] == text
        assert int(row.fixed["document_offset"]) == item.context[: offsets[begin][0]].count(" ")
        record = json.loads(row["record"].tobytes())
        assert record == {"id": str(seed), "question": item.question, "context": item.context, "answers": [text]}
    assert sorted(owned) == _starts(item.context)
    assert kind.counts["notes"].get("windows_with_answer", 0) == answered


def _starts(text: str) -> list[int]:
    return [index for index in range(len(text)) if index == 0 or text[index - 1] == " "]


def test_no_segments_in_the_frame_of_roberta(tokenizer: Tokenizer) -> None:
    rows = made(tokenizer, 20, frame="roberta").rows([Question("a", "good film", ((0, "good"),), "k", 0)])
    assert "segment_starts" not in rows.columns
    assert rows.row(0)["answer_span"].tolist() == [4, 4]


def test_counts(tokenizer: Tokenizer) -> None:
    """A question is cut to half of a row; one that has no tokens, or whose answer has none, is refused."""
    kind = made(tokenizer, 16)
    long = Question(" ".join(["film"] * 30), "a good plot", (), "k", 0)
    items = [long, Question("\u0300", "a", (), "k", 1), Question("a", "\u0300 b", ((0, "\u0300"),), "k", 2),
             Rejected("fields", 3)]  # fmt: skip
    rows = kind.rows(items)
    assert len(rows) == 1
    assert kind.counts["truncated_tokens"] == 22
    assert kind.counts["refused"] == {"no_tokens": 2, "fields": 1}
    assert rows.row(0)["answer_span"].tolist() == [0, 0]


@pytest.mark.parametrize("stride", [None, 1, 9, 16, 300])
def test_windows_overlap_however_long_the_question_is(tokenizer: Tokenizer, stride: int | None) -> None:
    """Every answer of at most half of the room that the question leaves lies in some window, wherever it begins."""
    asked = " ".join(["film"] * 30)
    context = " ".join(WORDS[:1] * 40)
    room = 32 - 16 - 3
    for words in (1, room // 2):
        for first in range(41 - words):
            answer = " ".join(WORDS[:1] * words)
            start = first * (len(WORDS[0]) + 1)
            kind = made(tokenizer, 32, stride)
            kind.rows([Question(asked, context, ((start, answer),), "k", 0)])
            assert kind.counts["notes"]["windows_with_answer"] > 0
            assert "questions_without_window" not in kind.counts["notes"]


def test_a_question_whose_answer_fits_no_window_is_counted(tokenizer: Tokenizer) -> None:
    kind = made(tokenizer, 16)
    context = " ".join(WORDS[:1] * 40)
    items = [Question("film", context, ((0, context),), "k", 0), Question("film", context, ((0, WORDS[0]),), "l", 1),
             Question("film", context, (), "m", 2)]  # fmt: skip
    rows = kind.rows(items)
    assert kind.counts["notes"]["questions_without_window"] == 1
    assert kind.counts["notes"]["windows_with_answer"] == 1
    assert kind.counts["notes"]["windows_without_answer"] == len(rows) - 1
