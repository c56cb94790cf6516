"""Predictions of a fine-tuned run as records: classes with probabilities, numbers, tags, answers, texts."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.tools.runs.evaluation.answer_scores import extract_answer, questions_of, read_spans
from clozeline.tools.runs.evaluation.generation_scores import generate_share
from clozeline.tools.runs.evaluation.pair_scores import pair_share
from clozeline.tools.runs.evaluation.predictions import Read, predict_share
from clozeline.tools.runs.evaluation.tag_scores import collect_tags, read_tags, sentences_of
from clozeline.tools.runs.evaluation.task_run import TaskRun
from clozeline.tools.runs.inference.prediction_files import Record

_DIGITS = 6
"""Decimals of probabilities and scores: other batches change a score by some 1e-7."""


def predict_records(
    opened: TaskRun, rows: Rows, generated: Mapping[int, str] | None = None
) -> Iterator[tuple[int, Record]]:
    """Yield the first row and the prediction of each text, sentence or question in some rows of the task.

    A record has, by the head:

    - classification: `label`, `probability` and `probabilities` by class; with several classes `labels` instead;
    - regression, similarity: `score`;
    - tagging: `words` and `tags`; span: `answer`, its `start` in the text, `score`, and with unanswerable questions the
      probability `na_prob` of no answer; multiple choice: `choice` and `probabilities`; lm: `text`.

    `generated` are the texts of a run that generates, by row, if they are known.
    """
    facts = opened.facts
    if not len(rows):
        return
    if facts.head == "lm":
        for row, text in sorted((generated or generate_share(opened, rows, 0, 1)).items()):
            yield row, {"text": text, **({"label": text} if text in facts.words else {})}
    elif facts.head == "similarity":
        for row, cosine in sorted(pair_share(opened, rows, 0, 1).items()):
            yield row, {"score": round(_finite(cosine), _DIGITS)}
    elif facts.head == "tagging":
        predicted = _share(opened, rows, partial(read_tags, facts=facts))
        for sentence in sentences_of(rows, facts):
            tags = collect_tags(sentence, rows, predicted, facts, 1)
            yield sentence.rows[0], {"words": list(sentence.words), "tags": tags}
    elif facts.head == "span":
        yield from _answer_records(opened, rows)
    else:
        reads: dict[str, Callable[..., list[Any]]] = {"regression": _read_numbers, "multiple_choice": _read_choices}
        yield from sorted(_share(opened, rows, partial(reads.get(facts.head, _read_classes), facts=facts)).items())


def _share(opened: TaskRun, rows: Rows, read: Read) -> dict[int, Any]:
    return predict_share(opened.trained.model, opened.shards, rows, opened.head, 0, 1, read)


def _answer_records(opened: TaskRun, rows: Rows) -> Iterator[tuple[int, Record]]:
    predicted = _share(opened, rows, read_spans)
    for asked in questions_of(rows):
        answer = extract_answer(asked, rows, predicted, opened.facts, opened.threshold)
        record: Record = {"answer": answer.text, "start": answer.start, "score": round(answer.score, _DIGITS)}
        if opened.facts.unanswerable:
            difference = max(-700.0, min(700.0, answer.score - answer.null))  # the range of exp
            record |= {"null_score": round(answer.null, _DIGITS),
                       "na_prob": round(1 / (1 + math.exp(difference)), _DIGITS)}  # fmt: skip
        yield asked.rows[0], record


def _read_classes(scores: Tensor, tensors: Mapping[str, Tensor], rows: Rows, *, facts: TaskFacts) -> list[Record]:
    """Return the class with the highest probability, or each class above one half, and all probabilities."""
    scores = scores.float()
    chances = scores.sigmoid() if facts.multi_label else scores.softmax(-1)
    records: list[Record] = []
    for row, row_scores in zip(chances.tolist(), scores.tolist(), strict=True):
        by_name = {name: round(_finite(value), _DIGITS) for name, value in zip(facts.labels, row, strict=True)}
        if facts.multi_label:
            found = [name for name, value in zip(facts.labels, row_scores, strict=True) if value > 0]
            records.append({"labels": found, "probabilities": by_name})
        else:
            best = facts.labels[row_scores.index(max(row_scores))]
            records.append({"label": best, "probability": by_name[best], "probabilities": by_name})
    return records


def _read_numbers(scores: Tensor, tensors: Mapping[str, Tensor], rows: Rows, *, facts: TaskFacts) -> list[Record]:
    return [{"score": round(_finite(value), _DIGITS)} for value in scores.float().tolist()]


def _read_choices(scores: Tensor, tensors: Mapping[str, Tensor], rows: Rows, *, facts: TaskFacts) -> list[Record]:
    """Return the best choice and the probabilities; choices that a row lacks have the score -inf."""
    records = []
    for row, count in zip(scores.float(), tensors["choices"].tolist(), strict=True):
        chances = torch.softmax(row[:count], 0).tolist()
        best = max(range(count), key=lambda index: (row[index].item(), -index))
        records.append({"choice": best, "probabilities": [round(_finite(value), _DIGITS) for value in chances]})
    return records


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise IntegrityError("a row got no finite score: the weights are unusable")
    return value
