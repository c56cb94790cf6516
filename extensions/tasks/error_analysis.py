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
from clozeline.report.views import Table
from clozeline.terminal import align_rows

_SHOWN_PREDICTIONS: Final = 10
"""Number of wrong predictions that are printed, the worst first."""
_SHOWN_ANSWERS: Final = 4
"""Number of wrong answers, and of right ones, in tables."""
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


def answer_table(answer: TaskHead, records: Sequence[Record]) -> Table:
    """Return the worst answers, and some of the best ones, with their texts."""
    ranked = sorted(records, key=lambda record: -float(record["error"]))
    rows = [
        (
            "wrong" if record["error"] else "right",
            " ".join(record.get("texts") or record["words"]),
            str(record["gold"]),
            ", ".join(str(record[field]) for field in answer.fields() if field in record),
        )
        for record in [*ranked[:_SHOWN_ANSWERS], *ranked[_SHOWN_ANSWERS:][-_SHOWN_ANSWERS:]]
    ]
    return Table("Wrong and right answers", ("", "text", "true", "predicted"), rows)


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
    from sklearn.metrics import precision_recall_fscore_support
    from sklearn.preprocessing import MultiLabelBinarizer

    marks = MultiLabelBinarizer(classes=labels)
    gold, predicted = (marks.fit_transform(side) for side in zip(*units, strict=True))
    scores = precision_recall_fscore_support(gold, predicted, zero_division=0)[:3]
    rows: list[list[object]] = []

    for number, name in enumerate(labels):
        count = gold[:, number].sum()
        occurs = count + predicted[:, number].sum()
        shown = (f"{of[number]:.4f}" if occurs else "–" for of in scores)
        rows.append([name, *shown, count])

    return rows


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    cells = [list(map(str, row)) for row in (header, *rows)]
    for line in align_rows(cells):
        yield f"  {line}"
