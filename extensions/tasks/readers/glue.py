"""Read GLUE: nine tasks on a sentence or a pair of sentences (arXiv 1804.07461)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Literal

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.readers import (
    LabeledText,
    Rejected,
    Row,
    RowFile,
    SourceTarget,
    TaggedWords,
    TaskMetadata,
)
from clozeline.extensions.tasks.readers._labels import number_classes
from clozeline.extensions.tasks.readers._official_layout import OfficialLayout
from clozeline.extensions.tasks.readers.labeled import LabeledReader
from clozeline.pipeline.tables import open_table

_ENTAILMENT_CLASSES: Final = ("entailment", "not_entailment")
_PAIR_COLUMNS: Final = ("sentence1", "sentence2")


@dataclass(frozen=True)
class GlueTask:
    """A task: its classes as in GLUE's submissions, its metrics, and the columns of its files."""

    labels: tuple[str, ...] = ("0", "1")
    """classes; empty: a score from 0 to 5"""
    texts: tuple[str, ...] = _PAIR_COLUMNS
    """columns of the text or of both texts"""
    label: str = "label"
    """column of the class or the score"""
    metrics: tuple[str, ...] = ("accuracy",)
    exported: tuple[str, ...] = ()
    """columns of the texts in exports of Hugging Face, whose label is `label`; empty: the same"""
    columns: tuple[str, ...] = ()
    """all columns of a file without header"""
    positive: int | None = None
    """class of F1"""
    words: tuple[str, ...] = ()
    """target texts of classes that are numbers"""


_F1_METRICS: Final = ("f1", "accuracy")
GLUE_TASKS: Final = {
    # the third column is the author's mark, which reveals the label: it is never used as text
    "cola": GlueTask(
        texts=("sentence",),
        metrics=("matthews_correlation",),
        columns=("source", "label", "mark", "sentence"),
        words=("unacceptable", "acceptable"),
    ),
    # a file without header has the complete sentences of SST-2 (6,920 in training), not GLUE's
    # phrases
    "sst2": GlueTask(
        texts=("sentence",), columns=("sentence", "label"), words=("negative", "positive")
    ),
    "mrpc": GlueTask(
        texts=("#1 String", "#2 String"),
        label="Quality",
        metrics=_F1_METRICS,
        exported=_PAIR_COLUMNS,
        positive=1,
        words=("not_equivalent", "equivalent"),
    ),
    "qqp": GlueTask(
        texts=("question1", "question2"),
        label="is_duplicate",
        metrics=_F1_METRICS,
        positive=1,
        words=("not_duplicate", "duplicate"),
    ),
    "stsb": GlueTask((), label="score", metrics=("pearson", "spearman")),
    "mnli": GlueTask(
        ("entailment", "neutral", "contradiction"),
        label="gold_label",
        exported=("premise", "hypothesis"),
    ),
    "qnli": GlueTask(_ENTAILMENT_CLASSES, texts=("question", "sentence")),
    "rte": GlueTask(_ENTAILMENT_CLASSES),
    "wnli": GlueTask(),
}


class GlueReader(OfficialLayout):
    """Tables in the official layout, or Hugging Face exports as tables or JSON lines.

    Exports hold class indices, -1 for none; 0 is `entailment` in RTE, QNLI and MNLI. Rejected:
    `fields`, a line with another number of fields; `empty_text`; `bad_label`, not a class of the
    task (`-` in MNLI) or not a score of STS-B; `no_label`, a row of a file without labels.

    Example (sst2):
        `sentence<tab>label`, then `a stirring film<tab>1`

    Example (mnli, `as_text`):
        `mnli hypothesis: It rains. premise: It pours.` to `entailment`
    """

    VERSION = 2

    @config_class
    class Options:
        task: Literal["cola", "sst2", "mrpc", "qqp", "stsb", "mnli", "qnli", "rte", "wnli"]
        """task of the collection"""
        as_text: bool = False
        """write the rows as T5 does (arXiv 1910.10683, appendix D), for the head lm, which
        generates the class; metrics count the classes or scores in its texts"""

        def __post_init__(self) -> None:
            if self.as_text and self.task == "wnli":
                raise ValueError(
                    "as_text: T5 has no texts for the classes of wnli: choose another task"
                )

    options: Options

    @property
    def task(self) -> GlueTask:
        """Specification of the task."""
        return GLUE_TASKS[self.options.task]

    @cached_property
    def spec(self) -> LabeledReader.Options:
        task = self.task
        name = self.options.task
        answer = (
            {"label": task.label, "classes": number_classes(task.labels)}
            if task.labels
            else {"score": task.label}
        )

        return LabeledReader.Options(
            task=name,
            text=[task.texts[0]],
            text_pair=[*task.texts[1:]],
            no_label=["-1"],
            range=[0.0, 5.0],
            **answer,
        )

    @property
    def metadata(self) -> TaskMetadata:
        metadata = super().metadata
        words = self.task.words or self.task.labels
        metadata = replace(metadata, metrics=self.task.metrics, positive=self.task.positive)
        return (
            replace(metadata, head="lm", texts=1, labels=(), words=words)
            if self.options.as_text
            else metadata
        )

    def input_columns(self, names: Sequence[str]) -> dict[str, list[str]]:
        texts = self.task.exported if {*self.task.exported} & {*names} else self.task.texts
        return {key: [name] for key, name in zip(("text", "text_pair"), texts, strict=False)}

    def open(self, path: Path) -> RowFile:
        task = self.task
        file = open_table(path, self.limits, default="tsv", by_line=True)
        names = {*file.names}

        if (
            len(task.columns) == len(file.names)
            and file.names[task.columns.index("label")] in task.labels
        ):
            layout = "official" if "mark" in task.columns else "sentences without header"
            table = open_table(path, self.limits, columns=task.columns, default="tsv", by_line=True)
            return replace(table, layout=layout)

        known = [(task.texts, task.label), (task.exported or task.texts, "label")]
        for texts, label in known:
            # test files have an index instead of a label
            if {*texts} <= names and (label in names or "index" in names):
                is_export = "idx" in names or (texts, label) != known[0]
                layout = "official test"
                if label in names:
                    layout = "export with numbers" if is_export else "official"
                official = dict(zip((*texts, label), (*task.texts, task.label), strict=True))
                return replace(file, layout=layout, rows=partial(_rename, file, official))

        headers = [f"a header with {', '.join((*texts, label))}" for texts, label in known]
        headers += [f"no header, and the fields {', '.join(task.columns)}"] if task.columns else []
        shown = " | ".join(name if len(name) <= 80 else f"{name[:80]}…" for name in file.names)
        raise ConfigurationError(
            f"{path}: expected a layout of this task ({'; '.join(dict.fromkeys(headers))}), got "
            f"{len(names)} fields: {shown}"
        )

    def item(self, row: Row, index: int) -> Any:
        return self._format_as_text(super().item(row, index))

    def build_unlabeled(self, row: Row, index: int) -> Any:
        return self._format_as_text(super().build_unlabeled(row, index))

    def _format_as_text(self, item: LabeledText | TaggedWords) -> Any:
        """Return the item; with `as_text`, as the text that T5 uses."""
        name = self.options.task
        if not self.options.as_text or not isinstance(item, LabeledText):
            return item
        names = self.task.exported or self.task.texts
        fields = [f"{name}: {text.strip()}" for name, text in zip(names, item.texts, strict=True)]
        source = " ".join(reversed(fields) if name == "mnli" else fields)  # the hypothesis first
        has_class = self.spec.label is not None
        target = (
            self.metadata.words[item.label or 0] if has_class else score_words(item.target or 0.0)
        )
        return SourceTarget(source, (target,), f"{name} ", item.index)


def score_words(score: float) -> str:
    """Return a score as in the training of T5: rounded to 0.2 (half to even), with one decimal.

    Example:
        >>> [score_words(score) for score in (2.5, 2.57, 0.1, 0.3, 3.8)]
        ['2.4', '2.6', '0.0', '0.4', '3.8']
    """
    return f"{round(5 * score) / 5:.1f}"


def _rename(file: RowFile, names: dict[str, str]) -> Iterator[tuple[int, Row | Rejected]]:
    """Yield the rows with the official column names, and no other columns."""
    for index, row in file.rows():
        yield (
            index,
            row if isinstance(row, Rejected) else {new: row.get(old) for old, new in names.items()},
        )
