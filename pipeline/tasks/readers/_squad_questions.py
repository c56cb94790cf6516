"""Questions of JSON files whose answers are parts of a text, checked against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from clozeline.pipeline.tasks.readers._task_items import Question, Rejected

QUESTION_REASONS: Final = ("fields", "answer_not_found", "no_answer")
"""Reasons for which a question is refused."""


def question_of(
    asked: Mapping[str, Any], context: Any, index: int, group: str, *, unanswerable: bool = False
) -> Question | Rejected:
    """Return a question in SQuAD's layout, or the reason for which it is none.

    Args:
        asked: `question`, `id`, and `answers` with `text` and `answer_start`.
        context: the text that is asked about.
        index: number of the question in the file.
        group: the article.
        unanswerable: keep a question without answers.
    """
    question, key, given = asked.get("question"), asked.get("id"), asked.get("answers", [])
    texts = all(isinstance(one, str) and one.strip() for one in (question, context))
    if not texts or not isinstance(key, (str, int)) or not isinstance(given, list):
        return Rejected("fields", index)
    answers = []
    for answer in [] if asked.get("is_impossible") else given:
        start, text = (answer.get(name) for name in ("answer_start", "text")) if isinstance(answer, Mapping) else (0, 0)
        if not isinstance(start, int) or not isinstance(text, str) or not text.strip():
            return Rejected("fields", index)
        if start < 0 or context[start : start + len(text)] != text:
            return Rejected("answer_not_found", index)
        answers.append((start, text))
    if not answers and not unanswerable:
        return Rejected("no_answer", index)
    return Question(str(question), str(context), tuple(answers), str(key), index, group)


def maps(given: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list, an empty one in place of anything else."""
    for one in given if isinstance(given, list) else []:
        yield one if isinstance(one, Mapping) else {}
