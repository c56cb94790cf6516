"""The nine tasks of GLUE (arXiv 1804.07461): class names as in GLUE's submissions, metrics and file layouts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from clozeline.pipeline.tasks.readers._reader import TaskFacts
from clozeline.pipeline.tasks.readers._tables import TableLayout

_BINARY: Final = ("0", "1")
_ENTAILMENT: Final = ("entailment", "not_entailment")
_NLI: Final = ("entailment", "neutral", "contradiction")
_QUESTIONS: Final = ("question1", "question2")
_PAIR: Final = ("sentence1", "sentence2")
_EXPORT: Final = "export with numbers"


@dataclass(frozen=True)
class GlueTask:
    """A task, and the layouts of its files in the order to try."""

    facts: TaskFacts
    layouts: tuple[TableLayout, ...]


def _task(
    name: str,
    labels: Sequence[str],
    metrics: tuple[str, ...],
    texts: tuple[str, ...],
    *more: TableLayout,
    label: str = "label",
    positive: int | None = None,
    exported: tuple[str, ...] | None = None,
) -> GlueTask:
    """Return a classification task; official files have a header, with the label except in the test set.

    Hugging Face exports hold the class index in a column `label` and name the texts `exported`.
    """
    numbers = tuple((str(number), number) for number in range(len(labels)))
    cells = tuple(dict.fromkeys((*numbers, *((cell, number) for number, cell in enumerate(labels)))))
    export = TableLayout(name=_EXPORT, texts=exported or texts, cells=numbers, also=("idx",))
    official = TableLayout(name="official", texts=texts, label=label, cells=cells)
    test = TableLayout(name="official test", texts=texts, label=None, also=("index",))
    facts = TaskFacts(
        name=name, head="classification", labels=tuple(labels), metrics=metrics, texts=len(texts), positive=positive
    )
    plain = TableLayout(name=_EXPORT, texts=exported or texts, cells=numbers)
    return GlueTask(facts, (*more, export, official, *([plain] if exported else []), test))


_COLA = TableLayout(
    name="official", texts=("sentence",), cells=(("0", 0), ("1", 1)), columns=("source", "label", "mark", "sentence")
)
"""The third column is the author's mark, which reveals the label: it is never a text."""
_SENTENCES = TableLayout(
    name="sentences without header", texts=("sentence",), cells=(("0", 0), ("1", 1)), columns=("sentence", "label")
)
"""The complete sentences of SST-2 (6,920 in training), instead of GLUE's phrases."""
_STSB = GlueTask(
    TaskFacts(name="stsb", head="regression", metrics=("pearson", "spearman"), texts=2, low=0.0, high=5.0),
    (
        TableLayout(name="official", texts=_PAIR, label="score"),
        TableLayout(name=_EXPORT, texts=_PAIR),
        TableLayout(name="official test", texts=_PAIR, label=None, also=("index",)),
    ),
)

_TASKS: Final = (
    _task("cola", _BINARY, ("matthews_correlation",), ("sentence",), _COLA),
    _task("sst2", _BINARY, ("accuracy",), ("sentence",), _SENTENCES),
    _task("mrpc", _BINARY, ("f1", "accuracy"), ("#1 String", "#2 String"), label="Quality", positive=1, exported=_PAIR),
    _task("qqp", _BINARY, ("f1", "accuracy"), _QUESTIONS, label="is_duplicate", positive=1, exported=_QUESTIONS),
    _STSB,
    _task("mnli", _NLI, ("accuracy",), _PAIR, label="gold_label", exported=("premise", "hypothesis")),
    _task("qnli", _ENTAILMENT, ("accuracy",), ("question", "sentence")),
    _task("rte", _ENTAILMENT, ("accuracy",), _PAIR),
    _task("wnli", _BINARY, ("accuracy",), _PAIR),
)
GLUE_TASKS: Final = {task.facts.name: task for task in _TASKS}
