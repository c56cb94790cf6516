from __future__ import annotations

from typing import Any

import pytest

from clozeline.pipeline.tasks.readers import Question, Rejected
from clozeline.pipeline.tasks.readers.squad import maps, question_of

CONTEXT = "Ada wrote. Ada ran."


def asked(*answers: Any, **changes: Any) -> dict[str, Any]:
    return {"question": "Who?", "id": 7, "answers": list(answers), **changes}


def test_answers_are_where_they_say() -> None:
    given = asked({"answer_start": 11, "text": "Ada"}, {"answer_start": 0, "text": "Ada wrote"})
    expected = Question("Who?", CONTEXT, ((11, "Ada"), (0, "Ada wrote")), "7", 3, "doc")
    assert question_of(given, CONTEXT, 3, "doc") == expected


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (asked({"answer_start": 1, "text": "Ada"}), "answer_not_found"),
        (asked({"answer_start": -3, "text": "an."}), "answer_not_found"),
        (asked({"answer_start": "0", "text": "Ada"}), "fields"),
        (asked("Ada"), "fields"),
        (asked(question=" "), "fields"),
        (asked(id=None), "fields"),
        (asked(), "no_answer"),
        (asked({"answer_start": 0, "text": "Ada"}, is_impossible=True), "no_answer"),
    ],
)
def test_reasons(given: dict[str, Any], reason: str) -> None:
    assert question_of(given, CONTEXT, 3, "doc") == Rejected(reason, 3)


def test_a_question_without_answers_may_be_kept() -> None:
    assert question_of(asked(), CONTEXT, 3, "doc", unanswerable=True) == Question("Who?", CONTEXT, (), "7", 3, "doc")


def test_what_is_no_object_is_an_empty_one() -> None:
    assert [list(maps(given)) for given in (None, {"a": 1}, [{"a": 1}, 2])] == [[], [], [{"a": 1}, {}]]
