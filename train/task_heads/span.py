"""Answers of a head that finds the answer to a question in a text (SQuAD, arXiv 1606.05250 and 1806.03822)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from clozeline.columns import IGNORED
from clozeline.errors import IntegrityError
from clozeline.model.decoding.answers import Answers, read_answers
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.tasks.readers import Question, Rejected, TaskItem, TaskReader
from clozeline.pipeline.tasks.readers.squad import SquadReader
from clozeline.pipeline.tasks.rows.span import ANSWER_POSITIONS, ANSWER_SPAN
from clozeline.pipeline.tasks.task_rows import record_of
from clozeline.train.data.stream.head_features import HeadBatch
from clozeline.train.data.stream.padding import flatten
from clozeline.train.task_heads._squad_metrics import (
    best_threshold,
    normalize,
    question_scores,
    token_f1,
)
from clozeline.train.task_heads._task_head import (
    Record,
    TaskHead,
    TaskModel,
    TaskScores,
    join_cells,
    mean,
    rounded,
    windows_of,
)

_LONGEST: Final = 30
"""maximum tokens per answer (arXiv 1810.04805)"""
_RANGE: Final = 700.0
"""of the arguments of exp"""


@dataclass(frozen=True)
class AskedQuestion:
    """A question from its file, with its accepted answers (or none) and the rows of its windows, in order."""

    question: str
    context: str
    answers: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class FoundAnswer:
    """An answer of a model, empty if it gives none; `score` is that of its best span, `null` that of no answer."""

    text: str
    start: int | None
    score: float
    null: float


class SpanTaskHead(TaskHead):
    """A prediction is, for a window, the score, first and last position of its best answer, and the score of none."""

    columns = (ANSWER_SPAN, ANSWER_POSITIONS)
    unit = "questions"
    inputs = ("question", "context")
    layout = "squad"

    @staticmethod
    def tensors(batch: HeadBatch) -> dict[str, Tensor]:
        """Return `answer_start` and `answer_end` [B], -100 in rows without an answer, and where it may be.

        `answer_places` [B, T] bool are the positions where an answer may start or end.
        """
        ends, rows = flatten(batch.columns["answer_span"])
        bounds = np.full((len(batch.ids), 2), IGNORED, np.int64)
        bounds[rows[::2]] = ends.reshape(-1, 2)
        allowed = np.zeros(batch.ids.shape, np.bool_)
        positions, row = flatten(batch.columns["answer_places"])
        allowed[row, positions] = True
        return {
            "answer_start": torch.from_numpy(bounds[:, 0].copy()),
            "answer_end": torch.from_numpy(bounds[:, 1].copy()),
            "answer_places": torch.from_numpy(allowed),
        }

    def problems(self, columns: Mapping[str, Ragged]) -> Iterator[tuple[int, str]]:
        sizes = columns["input_ids"].lengths
        offsets = columns["offsets"].lengths
        for row, offset_count in enumerate(offsets.tolist()):
            if offset_count != 2 * sizes[row]:
                yield (
                    row,
                    f"expected two offsets for each of {sizes[row]} tokens, got {offset_count}",
                )
            allowed, owned = (
                set(columns[name][row].tolist()) for name in ("answer_places", "owned_places")
            )
            ends = columns["answer_span"][row].tolist()
            if len(ends) != 2 or ends[0] > ends[1] or not allowed >= {*ends, *owned}:
                yield (
                    row,
                    "expected the first and last position of an answer among answer_places, got "
                    f"{ends}",
                )

    def read(
        self, scores: Tensor, tensors: Mapping[str, Tensor], rows: RowBatch
    ) -> Sequence[object]:
        """Return the best answer of each window; `scores` [B, T, 2] are those of its ends.

        An answer starts where its token has the most context among the windows, so that no window
        is read at its edges.
        """
        if not scores[tensors["answer_places"]].isfinite().all():
            raise IntegrityError("the scores of an answer are not finite: the weights are unusable")
        # mask of the positions at which an answer may start [B, T]
        is_owned = torch.zeros_like(tensors["answer_places"])
        for number, positions in enumerate(
            rows.columns["owned_places"][row] for row in range(len(rows))
        ):
            is_owned[number, torch.from_numpy(positions.astype(np.int64))] = True
        is_owned[:, 0] = True  # the score of "no answer" is at position 0
        # best span of each window among the allowed positions
        starts = scores[..., 0].float().masked_fill(~is_owned, -torch.inf)
        ends = scores[..., 1].float()
        null = torch.zeros(len(rows), dtype=torch.int64)
        answers = read_answers(
            torch.stack((starts, ends), -1), tensors["answer_places"], null, _LONGEST
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
            if self.facts.unanswerable:
                difference = max(-_RANGE, min(_RANGE, answer.score - answer.null))
                record |= {
                    "null_score": rounded(answer.null),
                    "na_prob": rounded(1 / (1 + math.exp(difference))),
                }
            yield asked.rows[0], record

    def fields(self) -> dict[str, type]:
        chance: dict[str, type] = (
            {"null_score": float, "na_prob": float} if self.facts.unanswerable else {}
        )
        return {"answer": str, "start": int, "score": float} | chance

    def item(
        self, values: Mapping[str, Sequence[Any]], reader: TaskReader, index: int, key: Any
    ) -> TaskItem | Rejected:
        question = join_cells(values["question"])
        context = values["context"][0]
        if question is None or join_cells(values["context"]) is None:
            return Rejected("fields", index)
        if not question or not (context or "").strip():
            return Rejected("empty_text", index)
        # answers are found again by their characters: the context stays as it is
        return Question(question, str(context), (), str(index if key is None else key), index)

    def official_readers(self) -> Sequence[TaskReader]:
        return (SquadReader(SquadReader.Options(), InputLimits()),)

    def gold(self, task: TaskModel, rows: RowBatch) -> dict[int, Record]:
        return {
            asked.rows[0]: {"texts": [asked.question, asked.context], "gold": list(asked.answers)}
            for asked in questions_of(rows)
        }

    def error(self, gold: Any, record: Record) -> float:
        """Return one minus the best F1 of an accepted answer."""
        v2 = self.facts.unanswerable
        return 1 - max(
            token_f1(record["answer"], answer, unanswerable=v2) for answer in gold or [""]
        )

    def score(
        self, task: TaskModel, train: RowBatch, rows: RowBatch, predicted: Mapping[int, object]
    ) -> TaskScores:
        """Return the scores of all questions of a set, next to those of no answer where it may be right."""
        asked = questions_of(rows)
        answers = [
            self.extract(question, rows, predicted, task.threshold).text for question in asked
        ]
        none = (
            {"no_answer": self.metrics(asked, [""] * len(asked))} if self.facts.unanswerable else {}
        )
        return TaskScores(len(asked), self.metrics(asked, answers), none)

    def metrics(self, asked: Sequence[AskedQuestion], answers: Sequence[str]) -> dict[str, float]:
        """Return F1 and exact match, each the mean over questions of the best accepted answer, from 0 to 1.

        If questions may have no answer, also those of the answerable questions, because always
        answering "none" reaches one half on SQuAD 2.0.
        """
        exact, f1 = self._question_scores(asked, answers)
        metrics = {"f1": mean(f1), "exact_match": mean(exact)}
        answerable = [number for number, question in enumerate(asked) if question.answers]
        if self.facts.unanswerable and answerable:
            metrics["answerable_f1"] = mean(f1[number] for number in answerable)
            metrics["answerable_exact_match"] = mean(exact[number] for number in answerable)
        return metrics

    def choose_threshold(
        self, rows: RowBatch, predicted: Mapping[int, object]
    ) -> tuple[float, float]:
        """Return the threshold of no answer with the highest F1 on a set, and that F1; see `best_threshold`."""
        asked = questions_of(rows)
        found = [self.extract(question, rows, predicted, math.inf) for question in asked]
        _, f1 = self._question_scores(asked, [answer.text for answer in found])
        unanswered = [float(not any(map(normalize, question.answers))) for question in asked]
        return best_threshold([answer.null - answer.score for answer in found], f1, unanswered)

    def _question_scores(
        self, asked: Sequence[AskedQuestion], answers: Sequence[str]
    ) -> tuple[list[float], list[float]]:
        scores = [
            question_scores(answer, question.answers, unanswerable=self.facts.unanswerable)
            for question, answer in zip(asked, answers, strict=True)
        ]
        return [exact for exact, _ in scores], [f1 for _, f1 in scores]

    def extract(
        self,
        asked: AskedQuestion,
        rows: RowBatch,
        predicted: Mapping[int, object],
        threshold: float = 0.0,
    ) -> FoundAnswer:
        """Return the answer over all windows of a question, cut from its text.

        If questions may have no answer, none is given where `null` exceeds `score` by more than the
        threshold.
        """
        windows = Answers(
            *map(torch.tensor, zip(*(predicted[row] for row in asked.rows), strict=True))
        )
        answer = windows.of_question(threshold if self.facts.unanswerable else torch.inf)
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
