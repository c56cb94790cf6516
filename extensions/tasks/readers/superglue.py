"""Read SuperGLUE's tasks and diagnostics, in JSON lines (arXiv 1905.00537)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Literal

from clozeline.configuration.config import config_class
from clozeline.extensions.tasks.readers import Rejected, Row, RowFile, TaskItem, TaskMetadata
from clozeline.extensions.tasks.readers._labels import number_classes
from clozeline.extensions.tasks.readers._official_layout import OfficialLayout
from clozeline.extensions.tasks.readers._reader import KEYS
from clozeline.extensions.tasks.readers._task_items import GROUP
from clozeline.extensions.tasks.readers.labeled import LabeledReader
from clozeline.extensions.tasks.readers.multiple_choice import MultipleChoiceReader
from clozeline.extensions.tasks.readers.squad import maps, question_of
from clozeline.pipeline.ingest.readers._rows import value_at
from clozeline.pipeline.tables import attach_texts, open_table

_TRUTH_CLASSES: Final = {"False": "false", "True": "true", "0": "false", "1": "true"}
_ENTAILMENT_CLASSES: Final = ("entailment", "not_entailment")
_QUESTIONS: Final = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}
"""Wording of COPA's two questions (Roemmele et al. 2011)."""


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _word_in_context(row: Row) -> Row:
    return {"first": f"{row['word']}: {row['sentence1']}", "second": row["sentence2"]}


def _pronoun(row: Row) -> Row:
    """Return the text with its pronoun between asterisks, as in T5, and the noun.

    {} if they differ.
    """
    target = row["target"]
    words = str(row["text"]).split()
    start = target["span2_index"]
    pronoun = str(target["span2_text"])
    end = start + len(pronoun.split()) if isinstance(start, int) else 0
    if not end or _letters("".join(words[start:end])) != _letters(pronoun):
        return {}
    marked = [*words[:start], "*", *words[start:end], "*", *words[end:]]
    return {"first": " ".join(marked), "second": target["span1_text"]}


def _plausible_choice(row: Row) -> Row:
    question = _QUESTIONS.get(str(row["question"]))
    premise, *choices = (str(row[name]).strip() for name in ("premise", "choice1", "choice2"))
    context = premise and question and f"{premise} {question}"
    return {
        "context": context,
        "choices": choices,
        "label": None if row.get("label") == -1 else row.get("label"),
    }


def _answers(row: Row) -> Iterator[Sequence[Row]]:
    """Yield the answers of each question, as passage and question with answer."""
    for question in maps(row["passage"]["questions"]):
        group = []

        for answer in maps(question.get("answers")):
            parts = [question.get("question"), answer.get("text")]
            texts = [part for part in parts if isinstance(part, str)]
            joined = " ".join(texts) if all(text.strip() for text in texts) else ""
            group.append(
                {
                    "first": str(row["passage"]["text"]),
                    "second": joined if len(texts) == 2 else None,
                    "parts": parts,
                    "label": answer.get("label"),
                    "idx": [row.get("idx"), question.get("idx"), answer.get("idx")],
                }
            )

        yield group


def _queries(row: Row) -> Iterator[Sequence[Row]]:
    """Yield each query in SQuAD's layout."""
    for query in maps(row["qas"]):
        answers = [
            {"answer_start": span.get("start"), "text": span.get("text")}
            for span in maps(query.get("answers"))
        ]
        entry = {"question": query.get("query"), "answers": answers}
        yield [{"context": row["passage"]["text"], "entry": entry, "idx": query.get("idx")}]


@plain_dataclass(frozen=True)
class SuperglueTask:
    """A task: the required fields of a line, and the meaning of its labels."""

    fields: tuple[str, ...]
    """required fields; two fields are the texts themselves"""
    labels: tuple[str, ...] = ()
    """classes; empty: false and true"""
    metrics: tuple[str, ...] = ("accuracy",)
    make: Callable[[Row], Row] | None = None
    """function that builds the texts `first` and `second` of a line, if needed"""
    split: Callable[[Row], Iterator[Sequence[Row]]] | None = None
    """function that builds the rows of a passage, in groups that are scored together"""
    head: str = "classification"


_TASKS: Final = {
    "boolq": SuperglueTask(("question", "passage")),
    "cb": SuperglueTask(
        ("premise", "hypothesis"),
        ("entailment", "contradiction", "neutral"),
        ("macro_f1", "accuracy"),
    ),
    "rte": SuperglueTask(("premise", "hypothesis"), _ENTAILMENT_CLASSES),
    "axb": SuperglueTask(
        ("sentence1", "sentence2"), _ENTAILMENT_CLASSES, ("matthews_correlation",)
    ),
    "axg": SuperglueTask(
        ("premise", "hypothesis"), _ENTAILMENT_CLASSES, ("accuracy", "gender_parity")
    ),
    "wic": SuperglueTask(("word", "sentence1", "sentence2"), make=_word_in_context),
    "wsc": SuperglueTask(
        ("text", "target.span1_text", "target.span2_text", "target.span2_index"), make=_pronoun
    ),
    "copa": SuperglueTask(
        ("premise", "choice1", "choice2", "question"),
        make=_plausible_choice,
        head="multiple_choice",
    ),
    "multirc": SuperglueTask(
        ("passage.text", "passage.questions"), metrics=("f1", "exact_match"), split=_answers
    ),
    "record": SuperglueTask(
        ("passage.text", "qas"), metrics=("f1", "exact_match"), split=_queries, head="span"
    ),
}


class SuperglueReader(OfficialLayout):
    """The official files: a line is a pair of texts with a class, a choice of two, or a passage.

    MultiRC gives a row per answer: the passage, and the question with the answer; F1 is over all
    answers, exact match over questions. ReCoRD gives a SQuAD question per query, whose answers are
    the mentions of an entity; a prediction may be any span. Gender parity of AX-g is the share of
    `pair_id`s whose rows get the same class.

    Rejected: `fields`, a line, answer or query without a field; `empty_text`; `bad_label`;
    `no_label`, a row of a file without labels; queries for SQuAD's reasons. A class may be its
    index, as in Hugging Face exports.

    Example (boolq):
        `{"question": "is it", "passage": "It is.", "idx": 0, "label": true}`
    """

    VERSION = 2

    @config_class
    class Options:
        task: Literal["boolq", "cb", "copa", "rte", "wic", "wsc", "axb", "axg", "multirc", "record"]
        """task of the collection"""

    options: Options

    @property
    def task(self) -> SuperglueTask:
        """Specification of the task."""
        return _TASKS[self.options.task]

    @cached_property
    def spec(self) -> LabeledReader.Options:
        task = self.task
        first, second = ("first", "second") if task.make or task.split else task.fields
        return LabeledReader.Options(
            task=self.options.task,
            text=[first],
            text_pair=[second],
            label="label",
            no_label=["-1"],
            classes=number_classes(task.labels) or _TRUTH_CLASSES,
        )

    @property
    def metadata(self) -> TaskMetadata:
        name = self.options.task
        task = self.task
        if task.head != "classification":
            return TaskMetadata(name=name, head=task.head, metrics=task.metrics, texts=2)
        return replace(
            super().metadata, metrics=task.metrics, positive=1 if "f1" in task.metrics else None
        )

    def open(self, path: Path) -> RowFile:
        file = open_table(path, self.limits)
        file.require(*self.task.fields, keys=KEYS)
        return replace(file, layout="official", rows=partial(self._examples, file))

    def _examples(self, file: RowFile) -> Iterator[tuple[int, Row | Rejected]]:
        """Yield the rows of all lines; the rows of a group share its index."""
        task = self.task
        index = 0

        for line, row in file.rows():
            groups: Iterable[Sequence[Row | Rejected]] = [[row]]

            if not isinstance(row, Rejected):
                if any(value_at(row, name) is None for name in task.fields):
                    groups = [[attach_texts(Rejected("fields", line), row)]]
                elif task.split is not None:
                    groups = (
                        [{**part, GROUP: f"passage {line}"} for part in group]
                        for group in task.split(row)
                    )
                else:
                    texts = (
                        {name: row[name] for name in task.fields}
                        if task.make is None
                        else task.make(row)
                    )
                    stripped = {
                        name: text.strip() if isinstance(text, str) else text
                        for name, text in texts.items()
                    }
                    groups = [[{**row, **stripped}]]

            for group in groups:
                yield from ((index, part) for part in group)
                index += 1

    def normalize(self, row: Row) -> Row:
        return row if self.options.task == "record" else super().normalize(row)

    def item(self, row: Row, index: int) -> Any:
        if self.options.task == "record":
            has_answers = row.get("label") is None
            entry = {**row["entry"], "id": index} | ({} if has_answers else {"answers": []})
            return question_of(
                {**row, "entry": entry}, index, self.form, unanswerable=not has_answers
            )

        if self.options.task == "copa":
            return MultipleChoiceReader(MultipleChoiceReader.Options(), self.limits).item(
                row, index
            )

        if self.options.task == "axg":
            index = pair if isinstance(pair := row.get("pair_id"), int) else index // 2
        return super().item(row, index)

    def read_unlabeled(self, path: Path) -> Iterator[tuple[TaskItem | Rejected, Any]] | None:
        """Return every row with its `idx` in a submission.

        For MultiRC, of text, question and answer.
        """

        def make(row: Row, index: int) -> Any:
            return replace(self.item({**row, "label": 0}, index), index=index)

        return self.read_with_placeholders(path, make, lambda row: row.get("idx"))
