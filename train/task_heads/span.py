"""Find the answer to a question in a text (SQuAD, arXiv 1606.05250, 1806.03822), and score it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from clozeline.errors import IntegrityError
from clozeline.model.decoding.answers import Answers, read_answers
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.tasks.readers import Question
from clozeline.pipeline.tasks.readers.squad import find_given
from clozeline.pipeline.tasks.task_rows import record_of
from clozeline.pipeline.text.normal_form import NormalForm
from clozeline.train.task_heads._squad_metrics import (
    best_threshold,
    normalize,
    question_scores,
    token_f1,
)
from clozeline.train.task_heads._task_head import (
    Judged,
    Metric,
    Record,
    TaskHead,
    TaskModel,
    mean,
    rounded,
    windows_of,
)

_MAX_ANSWER_TOKENS: Final = 30
"""Maximum number of tokens of an answer (arXiv 1810.04805)."""
_MAX_EXPONENT: Final = 700.0
"""Larger arguments of exp would overflow."""


@dataclass(frozen=True)
class AskedQuestion:
    """A question of a file, with its accepted answers, if any, and the rows of its windows."""

    question: str
    context: str
    answers: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class FoundAnswer:
    """The answer of a model to a question."""

    text: str
    """empty: no answer"""
    start: int | None
    score: float
    """score of the best span"""
    null: float
    """score of "no answer" """


def _mean_score(index: int, judged: Judged, *, answerable: bool = False) -> float:
    """Return the mean over questions, or those with an answer, of one of `question_scores`."""
    unanswerable = judged.metadata.unanswerable
    return mean(
        question_scores(guess, asked.answers, unanswerable=unanswerable)[index]
        for asked, guess in zip(judged.gold, judged.guesses, strict=True)
        if asked.answers or not answerable
    )


_METRICS: Final = {
    "f1": Metric(partial(_mean_score, 1)),
    "exact_match": Metric(partial(_mean_score, 0)),
    "answerable_f1": Metric(partial(_mean_score, 1, answerable=True)),
    "answerable_exact_match": Metric(partial(_mean_score, 0, answerable=True)),
}


class SpanTaskHead(TaskHead):
    """Predicts for each window score and ends of the best span, and the score of "no answer"."""

    unit = "questions"
    layout = "squad"
    metrics = _METRICS

    def read(
        self, scores: Tensor, tensors: Mapping[str, Tensor], rows: RowBatch
    ) -> Sequence[object]:
        """Return the best answer of each window; `scores` [B, T, 2] are scores of both ends.

        Of several windows with a token, only the window with the most context may start an answer
        at this token.
        """
        if not scores[tensors["answer_places"]].isfinite().all():
            raise IntegrityError("the scores of an answer are not finite: the weights are unusable")
        # mask of the positions at which an answer may start [B, T]
        is_owned = torch.zeros_like(tensors["answer_places"])
        for row in range(len(rows)):
            positions = rows.columns["owned_places"][row]
            is_owned[row, torch.from_numpy(positions.astype(np.int64))] = True

        is_owned[:, 0] = True  # the score of "no answer" is at position 0

        # best span of each window among the allowed positions
        starts = scores[..., 0].float().masked_fill(~is_owned, -torch.inf)
        ends = scores[..., 1].float()
        null = torch.zeros(len(rows), dtype=torch.int64)
        answers = read_answers(
            torch.stack((starts, ends), -1), tensors["answer_places"], null, _MAX_ANSWER_TOKENS
        )
        columns = [
            column.tolist() for column in (answers.score, answers.first, answers.last, answers.null)
        ]
        return list(zip(*columns, strict=True))

    def records(
        self, task: TaskModel, rows: RowBatch, predicted: Mapping[int, object]
    ) -> Iterator[tuple[int, Record]]:
        for asked in questions_of(rows):
            answer = self.extract(asked, rows, predicted, task.threshold)
            record: Record = {
                "answer": answer.text,
                "start": answer.start,
                "score": rounded(answer.score),
            }

            if self.metadata.unanswerable:
                limit = _MAX_EXPONENT
                difference = max(-limit, min(limit, answer.score - answer.null))
                record |= {
                    "null_score": rounded(answer.null),
                    "na_prob": rounded(1 / (1 + math.exp(difference))),
                }

            yield asked.rows[0], record

    def fields(self) -> dict[str, type]:
        unanswerable_fields: dict[str, type] = (
            {"null_score": float, "na_prob": float} if self.metadata.unanswerable else {}
        )
        return {"answer": str, "start": int, "score": float} | unanswerable_fields

    def as_given(self, record: Record, item: Question, form: NormalForm) -> Record:
        if not record["answer"]:
            return record
        start, text = find_given(form, item.given, record["start"], len(record["answer"]))
        return {**record, "answer": text, "start": start}

    def gold(self, task: TaskModel, rows: RowBatch) -> dict[int, Record]:
        return {
            asked.rows[0]: {"texts": [asked.question, asked.context], "gold": list(asked.answers)}
            for asked in questions_of(rows)
        }

    def error(self, gold: Any, record: Record) -> float:
        """Return one minus the best F1 of an accepted answer."""
        unanswerable = self.metadata.unanswerable
        return 1 - max(
            token_f1(record["answer"], answer, unanswerable=unanswerable) for answer in gold or [""]
        )

    def further_metrics(self, judged: Judged) -> tuple[str, ...]:
        """Return the metrics of answerable questions alone, if questions may have no answer.

        Over all questions of SQuAD 2.0, never giving an answer reaches one half.
        """
        has_both = self.metadata.unanswerable and any(asked.answers for asked in judged.gold)
        return ("answerable_f1", "answerable_exact_match") if has_both else ()

    def judge(
        self, task: TaskModel, train: RowBatch, rows: RowBatch, predicted: Mapping[int, Any]
    ) -> Judged:
        asked = questions_of(rows)
        answers = [self.extract(question, rows, predicted, task.threshold) for question in asked]
        return Judged(self.metadata, asked, [answer.text for answer in answers], answers)

    def baselines(self, task: TaskModel, train: RowBatch, rows: RowBatch) -> dict[str, Any]:
        """Return never giving an answer, if questions may have none."""
        return {"no_answer": [""] * len(questions_of(rows))} if self.metadata.unanswerable else {}

    def choose_threshold(
        self, rows: RowBatch, predicted: Mapping[int, object]
    ) -> tuple[float, float]:
        """Return the threshold with the highest F1 on a set, and that F1; see `best_threshold`."""
        asked = questions_of(rows)
        answers = [self.extract(question, rows, predicted, math.inf) for question in asked]
        f1 = [
            question_scores(answer.text, question.answers, unanswerable=True)[1]
            for question, answer in zip(asked, answers, strict=True)
        ]
        unanswered = [float(not any(map(normalize, question.answers))) for question in asked]
        return best_threshold([answer.null - answer.score for answer in answers], f1, unanswered)

    def extract(
        self,
        asked: AskedQuestion,
        rows: RowBatch,
        predicted: Mapping[int, object],
        threshold: float = 0.0,
    ) -> FoundAnswer:
        """Return the best answer over all windows of a question, as a part of its text.

        The answer is empty if questions may have no answer, and `null` exceeds `score` by more than
        the threshold.
        """
        windows = Answers(
            *map(torch.tensor, zip(*(predicted[row] for row in asked.rows), strict=True))
        )
        answer = windows.of_question(threshold if self.metadata.unanswerable else torch.inf)
        score = float(windows.score.max())
        null = float(windows.null.min())
        if answer is None or not math.isfinite(score):
            return FoundAnswer("", None, score, null)
        row, begin, end = answer
        offsets = rows.columns["offsets"][asked.rows[row]].reshape(-1, 2)
        start = int(offsets[begin, 0])
        return FoundAnswer(asked.context[start : int(offsets[end, 1])], start, score, null)


def questions_of(rows: RowBatch) -> list[AskedQuestion]:
    """Return the questions of a set, each with its windows, in the order of their first rows."""
    records = ((record_of(rows, order[0]), tuple(order)) for order in windows_of(rows))
    return [
        AskedQuestion(record["question"], record["context"], tuple(record["answers"]), order)
        for record, order in records
    ]
