"""Show where a fine-tuned run is wrong.

Shown are predictions with answers, the confusion of classes, and the worst rows. It imports torch.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from clozeline.extensions.tasks.task_heads._task_head import Record, TaskHead
from clozeline.extensions.tasks.task_run import TaskRun
from clozeline.pipeline.rows import RowBatch
from clozeline.terminal import align_rows

_SHOWN_PREDICTIONS: Final = 10
"""Number of wrong predictions that are printed, the worst first."""
_SHOWN_CLASSES: Final = 12
"""Number of classes in the printed confusion matrix: the classes with most errors."""


def collect_answers(
    opened: TaskRun, rows: RowBatch, predicted: Mapping[int, object]
) -> list[Record]:
    """Return the predictions of a set with their `gold` answers and their `error`.

    One for each text, sentence or question.

    `error` is 0 for a correct prediction, up to 1 or the distance of a number.
    """
    answer = opened.answer
    records = []
    gold = answer.gold(opened.task, rows)
    for row, record in answer.records(opened.task, rows, predicted):
        uid = f"{int(rows.fixed['uid'][row]):016x}"
        error = answer.error(gold[row]["gold"], record)
        records.append({"uid": uid, **gold[row], **record, "error": round(error, 6)})
    return records


def record_lines(records: Sequence[Record]) -> Iterator[str]:
    """Yield records as lines of JSON."""
    yield from (json.dumps(record, ensure_ascii=False) for record in records)


def error_lines(answer: TaskHead, records: Sequence[Record]) -> Iterator[str]:
    """Yield confusion of classes, scores by class, and the worst records.

    Records are JSON lines, ordered by their error.
    """
    units = [unit for record in records for unit in answer.classes(record["gold"], record)]
    if units and not answer.metadata.multi_label:
        yield from _confusion(
            answer.metadata.labels, Counter((gold[0], guess[0]) for gold, guess in units)
        )

    if units:
        yield "Scores by class:"
        yield from _table(
            ["class", "precision", "recall", "F1", "count"],
            _class_scores(answer.metadata.labels, units),
        )

    worst = sorted(
        (record for record in records if record["error"] > 0), key=lambda record: -record["error"]
    )
    yield f"Wrong: {len(worst):,} of {len(records):,}{', the worst' if worst else ''}"
    yield from record_lines(worst[:_SHOWN_PREDICTIONS])


def _confusion(labels: Sequence[str], pairs: Mapping[tuple[str, str], int]) -> Iterator[str]:
    errors = Counter[str]()
    for (gold, guess), count in pairs.items():
        errors.update({gold: count, guess: count} if gold != guess else {})
    names = [name for name in labels if any(name in pair for pair in pairs)]
    most = sorted(names, key=lambda name: (-errors[name], names.index(name)))[:_SHOWN_CLASSES]
    shown = [name for name in names if name in most]
    left_out = f" ({_SHOWN_CLASSES} classes with most errors)" if len(shown) < len(names) else ""
    yield f"Confusion{left_out}: gold by predicted:"
    yield from _table(
        ["gold", *shown],
        [[gold, *(pairs.get((gold, guess), 0) for guess in shown)] for gold in shown],
    )


def _class_scores(
    labels: Sequence[str], units: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> list[list[object]]:
    """Return precision, recall, F1 and the number of units of each class.

    Of one that does not occur no scores.
    """
    gold = Counter(name for gold_labels, _ in units for name in gold_labels)
    predicted = Counter(name for _, guesses in units for name in guesses)
    both = Counter(name for gold_labels, guesses in units for name in {*gold_labels} & {*guesses})
    rows: list[list[object]] = []

    for name in labels:
        if not gold[name] + predicted[name]:  # no score is defined
            rows.append([name, *["–"] * 3, 0])
            continue
        precision = both[name] / max(1, predicted[name])
        recall = both[name] / max(1, gold[name])
        f1 = 2 * both[name] / max(1, gold[name] + predicted[name])
        rows.append([name, *(f"{score:.4f}" for score in (precision, recall, f1)), gold[name]])

    return rows


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    cells = [list(map(str, row)) for row in (header, *rows)]
    for line in align_rows(cells):
        yield f"  {line}"
