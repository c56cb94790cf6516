"""Show where a fine-tuned run is wrong: each prediction with its answer, the confusion of classes, the worst rows."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from clozeline.pipeline.rows import Rows
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.pipeline.tasks.task_rows import record_of
from clozeline.tools.runs.evaluation.answer_scores import token_f1
from clozeline.tools.runs.evaluation.baselines import texts_of
from clozeline.tools.runs.evaluation.predictions import answers_of
from clozeline.tools.runs.evaluation.tag_scores import sentences_of
from clozeline.tools.runs.evaluation.task_run import TaskRun
from clozeline.tools.runs.inference.prediction_files import Record
from clozeline.tools.runs.inference.row_predictions import predict_records

_WORST: Final = 10
_CLASSES: Final = 12
"""Classes of the printed confusion matrix, those with most errors first."""
_TEXT: Final = 100
"""Characters of a text in the table."""


def answered_records(opened: TaskRun, rows: Rows, generated: Mapping[int, str] | None = None) -> list[Record]:
    """Return the prediction of each text, sentence or question of a set with its `gold` answer and its `error`.

    `error` is 0 for a correct row: one minus the probability of the gold class or choice, the largest of those of
    several classes, the distance of a number, the share of wrong words, or one minus the best F1 of an answer.
    `generated` are the texts of a task of texts by row, if they are known.
    """
    facts = opened.facts
    tags = {sentence.rows[0]: sentence for sentence in sentences_of(rows, facts)} if facts.head == "tagging" else {}
    texts = None if "record" in rows.columns else texts_of(rows, opened.trained.tokenizer)
    answers = None if "record" in rows.columns else answers_of(rows, facts).tolist()
    found = []
    for row, record in predict_records(opened, rows, generated):
        known: Record = {"uid": f"{int(rows.fixed['uid'][row]):016x}"}
        if texts is not None and answers is not None:
            known |= {"texts": list(texts[row]), "gold": _answer_in_words(facts, answers[row])}
        elif tags:
            known["gold"] = list(tags[row].tags)
        else:
            stored = record_of(rows, row)
            shown = ("question", "context") if facts.head == "span" else ("source",)
            known |= {"texts": [stored[name] for name in shown], "gold": stored.get("answers", stored.get("targets"))}
        found.append({**known, **record, "error": round(_error_of(facts, known["gold"], record), 6)})
    return found


def record_lines(records: Sequence[Record]) -> str:
    """Return records as JSON lines."""
    return "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)


def _answer_in_words(facts: TaskFacts, answer: Any) -> Any:
    if facts.multi_label:
        return [name for name, has in zip(facts.labels, answer, strict=True) if has]
    return facts.labels[answer] if facts.head == "classification" else answer


def _error_of(facts: TaskFacts, gold: Any, record: Mapping[str, Any]) -> float:
    match facts.head:
        case "classification" if facts.multi_label:
            return float(max(1 - p if name in gold else p for name, p in record["probabilities"].items()))
        case "classification":
            return 0.0 if record["label"] == gold else 1 - float(record["probabilities"][gold])
        case "multiple_choice":
            return 0.0 if record["choice"] == gold else 1 - float(record["probabilities"][gold])
        case "tagging":
            return float(np.mean([one != two for one, two in zip(gold, record["tags"], strict=True)]))
        case "span":
            scores = (token_f1(record["answer"], answer, unanswerable=facts.unanswerable) for answer in gold or [""])
            return 1 - max(scores)
        case "lm":
            return float(record["text"].strip() not in {target.strip() for target in gold})
    return abs(float(record["score"]) - float(gold))


def class_pairs(facts: TaskFacts, records: Sequence[Record]) -> Counter[tuple[str, str]]:
    """Return how often each gold class was predicted as each class; empty for tasks without single classes."""
    if facts.head == "tagging":
        return Counter(pair for each in records for pair in zip(each["gold"], each["tags"], strict=True))
    if facts.head != "classification" or facts.multi_label:
        return Counter()
    return Counter((each["gold"], each["label"]) for each in records)


def class_scores(facts: TaskFacts, records: Sequence[Record]) -> dict[str, tuple[float, float, float, int]]:
    """Return precision, recall, F1 and the number of rows or words of each class."""
    if facts.multi_label:
        both = Counter(name for each in records for name in {*each["gold"]} & {*each["labels"]})
        gold = Counter(name for each in records for name in each["gold"])
        predicted = Counter(name for each in records for name in each["labels"])
    else:
        both, gold, predicted = Counter[str](), Counter[str](), Counter[str]()
        for (answer, guess), count in class_pairs(facts, records).items():
            gold[answer] += count
            predicted[guess] += count
            both[answer] += count * (answer == guess)
    if not gold:
        return {}
    return {
        name: (both[name] / max(1, predicted[name]), both[name] / max(1, gold[name]),
               2 * both[name] / max(1, gold[name] + predicted[name]), gold[name])
        for name in facts.labels
    }  # fmt: skip


def worst_rows(records: Sequence[Record]) -> list[tuple[str, str, str, float]]:
    """Return text, answer, prediction and error of the rows with the highest error, the first among ties."""
    wrong = sorted((each for each in records if each["error"] > 0), key=lambda each: -each["error"])[:_WORST]
    return [(_cut(" | ".join(each.get("texts") or [" ".join(each["words"])])), _cut(_shown(each["gold"])),
             _cut(_shown(_prediction(each))), each["error"]) for each in wrong]  # fmt: skip


def error_tables(facts: TaskFacts, records: Sequence[Record]) -> Iterator[tuple[str, list[str], list[list[Any]]]]:
    """Yield title, header and rows of each table: confusion of classes, scores by class, worst rows."""
    pairs = class_pairs(facts, records)
    if pairs:
        errors = Counter[str]()
        for (gold, guess), count in pairs.items():
            errors.update({gold: count, guess: count} if gold != guess else {})
        names = [name for name in facts.labels if any(name in pair for pair in pairs)]
        most = sorted(names, key=lambda name: (-errors[name], names.index(name)))[:_CLASSES]
        names = [name for name in names if name in most]
        left_out = f" ({_CLASSES} classes with most errors)" if len(most) == _CLASSES else ""
        yield (f"Confusion{left_out}: gold by predicted", ["gold", *names],
               [[gold, *(pairs[gold, guess] for guess in names)] for gold in names])  # fmt: skip
    if by_class := class_scores(facts, records):
        rows = [[name, *(f"{value:.4f}" for value in values[:3]), values[3]] for name, values in by_class.items()]
        yield "Scores by class", ["class", "precision", "recall", "F1", "count"], rows
    if worst := worst_rows(records):
        yield "Worst rows", ["text", "gold", "predicted", "error"], [[*row[:3], f"{row[3]:.4f}"] for row in worst]


def error_lines(facts: TaskFacts, records: Sequence[Record]) -> Iterator[str]:
    """Yield the tables as lines."""
    for title, header, rows in error_tables(facts, records):
        cells = [list(map(str, row)) for row in (header, *rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        yield f"{title}:"
        for row in cells:
            yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _prediction(record: Record) -> Any:
    names = ("label", "labels", "score", "tags", "answer", "choice", "text")
    return next(record[name] for name in names if name in record and (name != "score" or "answer" not in record))


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return f"{value:.4f}" if isinstance(value, float) and math.isfinite(value) else str(value)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT else f"{line[: _TEXT - 1]}…"
