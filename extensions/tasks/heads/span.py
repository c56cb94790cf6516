"""Find the answer to a question in its text (SQuAD 1.1 and 2.0: arXiv 1606.05250, 1806.03822)."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np
import torch
from torch import Tensor, nn

from clozeline.columns import IGNORED, BatchField
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.extensions.tasks.heads._answers import best_spans
from clozeline.extensions.tasks.readers import Question
from clozeline.extensions.tasks.readers.squad import find_given
from clozeline.extensions.tasks.sets.task_rows import record_of
from clozeline.extensions.tasks.task_heads._squad_metrics import (
    best_threshold,
    normalize,
    question_scores,
    token_f1,
)
from clozeline.extensions.tasks.task_heads._task_head import (
    Judged,
    Metric,
    Record,
    TaskHead,
    TaskModel,
    mean,
    rounded,
    windows_of,
)
from clozeline.model.configuration.head import ClassifierOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._head import Head, StoredColumns
from clozeline.model.layers.pooling import Classifier
from clozeline.model.loss import cross_entropy_sum
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.text.normal_form import NormalForm


class SpanHead(Head):
    """Mean cross entropy of an answer's first and last position, among the allowed positions.

    `answer_start` and `answer_end` [B] are positions of the padded row, -100 in a row without
    label. `answer_places` [B, T] bool are the positions where an answer may start or end: the
    text, and [CLS] if the question may have no answer. A row whose question has none is labeled
    with [CLS] at both ends.
    """

    target: ClassVar = "span"
    unit: ClassVar = "row"
    left_padding: ClassVar = True
    reads: ClassVar = (
        BatchField("answer_start", "row", filler=IGNORED, below="length"),
        BatchField("answer_end", "row", filler=IGNORED, below="length"),
        BatchField("answer_places", "token", "bool"),
    )
    columns: ClassVar = ("answer_span", "answer_places")
    Options: ClassVar = ClassifierOptions
    figures: ClassVar = {"exact": "higher"}
    class_ending: ClassVar = "ForQuestionAnswering"
    options: ClassifierOptions

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__(config)
        self.classifier = Classifier(config, self.options, 2)

    @classmethod
    def keys_of_class(
        cls, read_labels: Callable[[], tuple[str, ...]], problem: str | None
    ) -> dict[str, Any] | None:
        if (count := len(read_labels())) != 2:
            raise ConfigurationError(
                f"config.json: id2label: expected 2 labels, first and last position, got {count}"
            )
        return {}

    @staticmethod
    def tensors(batch: StoredColumns) -> dict[str, Tensor]:
        """Return `answer_start` and `answer_end` [B], -100 in rows without an answer.

        `answer_places` [B, T] is True at positions where an answer may start or end.
        """
        span_ends, rows = batch.flat("answer_span")
        bounds = np.full((len(batch.ids), 2), IGNORED, np.int64)
        bounds[rows[::2]] = span_ends.reshape(-1, 2)
        allowed = np.zeros(batch.ids.shape, np.bool_)
        positions, row = batch.flat("answer_places")
        allowed[row, positions] = True
        return {
            "answer_start": torch.from_numpy(bounds[:, 0].copy()),
            "answer_end": torch.from_numpy(bounds[:, 1].copy()),
            "answer_places": torch.from_numpy(allowed),
        }

    @property
    def flops_unit(self) -> str:
        return "token"

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        first_and_last = zip(self._mask_scores(hidden, tensors), _ends(tensors), strict=True)
        return (
            torch.stack(
                [cross_entropy_sum(scores, positions) for scores, positions in first_and_last]
            ).sum()
            / 2
        )

    def divisor(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return (_ends(tensors)[0] != IGNORED).sum()

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the scores as first and as last position: [..., dim] to [..., 2]."""
        return self.classifier(hidden)

    def metrics(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the number of rows in which both ends have the highest scores."""
        first_and_last = zip(self._mask_scores(hidden, tensors), _ends(tensors), strict=True)
        first, last = (scores.argmax(-1) == positions for scores, positions in first_and_last)
        return {"exact": (first & last).sum()}

    def _mask_scores(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """Return the scores of first and last positions [B, T], minimal where not allowed."""
        scores = self.logits(hidden).float()
        # not -inf, which would turn the gradient of a row without allowed positions into NaN
        return scores.masked_fill(
            ~tensors["answer_places"][..., None], torch.finfo(scores.dtype).min
        ).unbind(-1)


def _ends(tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return first and last positions [B], `IGNORED` in rows of weight 0 or without an answer."""
    first = tensors["answer_start"]
    last = tensors["answer_end"]
    ignored = (tensors["row_weight"] == 0) | (first == IGNORED) | (last == IGNORED)
    return first.masked_fill(ignored, IGNORED), last.masked_fill(ignored, IGNORED)


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

    of_head = "span"
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

        # best span of each window among the places of its text; position 0 means no answer
        in_text = tensors["answer_places"].clone()
        in_text[:, 0] = False
        starts = scores[..., 0].float().masked_fill(~(in_text & is_owned), -torch.inf)
        ends = scores[..., 1].float().masked_fill(~in_text, -torch.inf)
        columns = *best_spans(starts, ends, _MAX_ANSWER_TOKENS), scores[:, 0].float().sum(-1)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def records(
        self, task: TaskModel, rows: RowBatch, predicted: Mapping[int, Any]
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

    def choose_threshold(self, rows: RowBatch, predicted: Mapping[int, Any]) -> tuple[float, float]:
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
        predicted: Mapping[int, Any],
        threshold: float = 0.0,
    ) -> FoundAnswer:
        """Return the best answer over all windows of a question, as a part of its text.

        The answer is empty if questions may have no answer, and `null` exceeds `score` by more than
        the threshold.
        """
        row = max(asked.rows, key=lambda row: predicted[row][0])
        score, begin, end, _ = predicted[row]
        null = min(predicted[row][3] for row in asked.rows)
        is_unanswerable = self.metadata.unanswerable and null - score > threshold
        if is_unanswerable or not math.isfinite(score):
            return FoundAnswer("", None, score, null)
        offsets = rows.columns["offsets"][row].reshape(-1, 2)
        start = int(offsets[begin, 0])
        return FoundAnswer(asked.context[start : int(offsets[end, 1])], start, score, null)


def questions_of(rows: RowBatch) -> list[AskedQuestion]:
    """Return the questions of a set, each with its windows, in the order of their first rows."""
    records = ((record_of(rows, order[0]), tuple(order)) for order in windows_of(rows))
    return [
        AskedQuestion(record["question"], record["context"], tuple(record["answers"]), order)
        for record, order in records
    ]
