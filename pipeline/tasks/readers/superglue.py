"""Reader of SuperGLUE's tasks and diagnostics, in JSON lines (arXiv 1905.00537)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from clozeline.configuration.config import config_class
from clozeline.pipeline.tasks.readers import (
    Choices,
    LabeledText,
    Layout,
    Rejected,
    TaskFacts,
    TaskFile,
    TaskItem,
    TaskReader,
    keep_texts,
)
from clozeline.pipeline.tasks.readers._json_lines import Object, field_of, json_objects, require_fields
from clozeline.pipeline.tasks.readers._text_lines import text_lines
from clozeline.pipeline.tasks.readers.squad import maps, question_of

_TRUTH: Final = ("false", "true")
_ENTAILMENT: Final = ("entailment", "not_entailment")
_PAIRS: Final = (("question", "passage"), ("premise", "hypothesis"), ("sentence1", "sentence2"))
"""Fields that are the two texts as they stand."""
_HIDDEN: Final = -1
"""Label of test rows in Hugging Face exports."""
_QUESTIONS: Final = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}
"""Wording of COPA's two questions (Roemmele et al. 2011)."""


@plain_dataclass(frozen=True)
class _Task:
    """A task: its metadata, the required fields of a line, and the function that returns the texts of a line."""

    facts: TaskFacts
    fields: tuple[str, ...]
    texts: Callable[[Object], tuple[str, ...]]


def _pair(name: str, labels: tuple[str, ...], metrics: tuple[str, ...], first: str, second: str) -> _Task:
    facts = TaskFacts(name=name, head="classification", labels=labels, metrics=metrics, texts=2)
    return _Task(facts, (first, second), lambda row: (str(row[first]), str(row[second])))


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _pronoun(row: Object) -> tuple[str, ...]:
    """Return the text with its pronoun between asterisks, as T5 marks it, and the noun (WSC).

    Raises:
        KeyError: another word stands at the index of the pronoun.
    """
    target, words = row["target"], str(row["text"]).split()
    at = target["span2_index"]
    pronoun = str(target["span2_text"])
    count = len(pronoun.split())
    if _letters("".join(words[at : at + count])) != _letters(pronoun):
        raise KeyError("span2_index")
    marked = [*words[:at], "*", *words[at : at + count], "*", *words[at + count :]]
    return (" ".join(marked), str(target["span1_text"]))


def _classes(name: str, fields: tuple[str, ...], texts: Callable[[Object], tuple[str, ...]]) -> _Task:
    return _Task(
        TaskFacts(name=name, head="classification", labels=_TRUTH, metrics=("accuracy",), texts=2), fields, texts
    )


_TASKS: Final = {
    task.facts.name: task
    for task in (
        _pair("boolq", _TRUTH, ("accuracy",), "question", "passage"),
        _pair("cb", ("entailment", "contradiction", "neutral"), ("macro_f1", "accuracy"), "premise", "hypothesis"),
        _pair("rte", _ENTAILMENT, ("accuracy",), "premise", "hypothesis"),
        _pair("axb", _ENTAILMENT, ("matthews_correlation",), "sentence1", "sentence2"),
        _pair("axg", _ENTAILMENT, ("accuracy", "gender_parity"), "premise", "hypothesis"),
        _classes("wic", ("word", "sentence1", "sentence2"),
                 lambda row: (f"{row['word']}: {row['sentence1']}", str(row["sentence2"]))),
        _classes("wsc", ("text", "target.span1_text", "target.span2_text", "target.span2_index"), _pronoun),
        _Task(
            TaskFacts(name="copa", head="multiple_choice", metrics=("accuracy",), texts=2),
            ("premise", "choice1", "choice2", "question"),
            lambda row: (str(row["premise"]), str(row["choice1"]), str(row["choice2"])),
        ),
        _Task(
            TaskFacts(name="multirc", head="classification", labels=_TRUTH, metrics=("f1", "exact_match"), texts=2,
                      positive=1),
            ("passage.text", "passage.questions"),
            lambda row: (str(row["passage"]["text"]),),
        ),
        _Task(
            TaskFacts(name="record", head="span", metrics=("f1", "exact_match"), texts=2),
            ("passage.text", "qas"),
            lambda row: (str(row["passage"]["text"]),),
        ),
    )
}  # fmt: skip


class Superglue(TaskReader):
    """The official files: a line is a pair of texts with a class, a choice of two (COPA), or a passage.

    MultiRC gives a row per answer: the passage, and the question with the answer; F1 is over all answers, exact match
    over questions. ReCoRD gives a SQuAD question per query, whose answers are the mentions of an entity; a prediction
    may be any span. Gender parity of AX-g is the share of `pair_id`s whose rows get the same class.

    Rejected: `fields`, a line, answer or query without a field; `empty_text`; `bad_label`; `no_label`, a row of a file
    without labels; queries for SQuAD's reasons. A class may be its index, as in Hugging Face exports.

    Example (boolq):
        `{"question": "is it", "passage": "It is.", "idx": 0, "label": true}`
    """

    VERSION: ClassVar[int] = 2

    @config_class
    class Options:
        task: Literal["boolq", "cb", "copa", "rte", "wic", "wsc", "axb", "axg", "multirc", "record"]
        """task of the collection"""

    options: Options

    @property
    def facts(self) -> TaskFacts:
        return _TASKS[self.options.task].facts

    def input_columns(self, names: Sequence[str]) -> dict[str, list[str]]:
        task = _TASKS[self.options.task]
        has_pair = task.facts.head == "classification" and task.fields in _PAIRS
        return {"text": [task.fields[0]], "text_pair": [task.fields[1]]} if has_pair else {}

    def open(self, path: Path) -> TaskFile:
        first = require_fields(path, self.limits, *_TASKS[self.options.task].fields)
        several = self.options.task in ("multirc", "record")
        return TaskFile(path, Layout("official", several or first.get("label") not in (None, _HIDDEN)))

    def read(self, file: TaskFile) -> Iterator[TaskItem | Rejected]:
        """Yield every row: answers of MultiRC, queries of ReCoRD, lines of the other tasks."""
        questions = 0
        for index, row in json_objects(file.path, self.limits):
            if isinstance(row, Rejected):
                yield row
            elif any(field_of(row, name) is None for name in _TASKS[self.options.task].fields):
                yield keep_texts(Rejected("fields", index), row)
            elif self.options.task == "multirc":
                for question in maps(row["passage"]["questions"]):
                    passage = str(row["passage"]["text"])
                    for item in self._answers(passage, question, questions, f"passage {index}"):
                        yield keep_texts(item, [passage, question])
                    questions += 1
            elif self.options.task == "record":
                for query in maps(row["qas"]):
                    # in SQuAD's layout
                    spans = [{"answer_start": span.get("start"), "text": span.get("text")}
                             for span in maps(query.get("answers"))]  # fmt: skip
                    entry = {"question": query.get("query"), "id": questions, "answers": spans}
                    passage = row["passage"]["text"]
                    yield keep_texts(question_of(entry, passage, questions, f"passage {index}"), [passage, entry])
                    questions += 1
            else:
                yield keep_texts(self._row(row, index), row)

    def read_unlabeled(self, path: Path) -> Iterator[tuple[TaskItem | Rejected, Any]] | None:
        """Return every row with the `idx` that names it in a submission; for MultiRC, of text, question and answer.

        None for a file that has no JSON lines.
        """
        _, line = next(text_lines(path, self.limits), (0, ""))
        return self._unlabeled_rows(path) if isinstance(line, str) and line.lstrip().startswith("{") else None

    def _unlabeled_rows(self, path: Path) -> Iterator[tuple[TaskItem | Rejected, Any]]:
        require_fields(path, self.limits, *_TASKS[self.options.task].fields)
        label: Any = self.facts.labels[0] if self.facts.labels not in ((), _TRUTH) else 0
        count = 0
        for index, row in json_objects(path, self.limits):
            if isinstance(row, Rejected) or any(field_of(row, n) is None for n in _TASKS[self.options.task].fields):
                found: list[tuple[TaskItem | Rejected, Any]] = [(Rejected("fields", count), None)]
            elif self.options.task == "multirc":
                found = [
                    (next(self._answers(str(row["passage"]["text"]), {**question, "answers": [{**answer, "label": 0}]},
                                        count, "")), [row.get("idx"), question.get("idx"), answer.get("idx")])
                    for question in maps(row["passage"]["questions"]) for answer in maps(question.get("answers"))
                ]  # fmt: skip
            elif self.options.task == "record":
                found = [
                    (question_of({"question": query.get("query"), "id": count, "answers": []}, row["passage"]["text"],
                                 count, "", unanswerable=True), query.get("idx"))
                    for query in maps(row["qas"])
                ]  # fmt: skip
            else:
                found = [(self._row({**row, "label": label}, index), row.get("idx"))]
            for item, key in found:
                yield replace(item, index=count), key  # type: ignore[type-var]
                count += 1

    def _row(self, row: Object, index: int) -> LabeledText | Choices | Rejected:
        try:
            texts = tuple(text.strip() for text in _TASKS[self.options.task].texts(row))
        except (TypeError, KeyError):
            return Rejected("fields", index)
        if not all(texts):
            return Rejected("empty_text", index)
        label = self._label(row.get("label"))
        if isinstance(label, str):
            return Rejected(label, index, self._detail(row.get("label")))
        if self.options.task == "axg":
            index = row["pair_id"] if isinstance(row.get("pair_id"), int) else index // 2
        if self.options.task != "copa":
            return LabeledText((texts[0], texts[1]), label, None, index)
        if (question := _QUESTIONS.get(str(row["question"]))) is None:
            return Rejected("fields", index)
        return Choices(f"{texts[0]} {question}", texts[1:], label, index)

    def _answers(
        self, passage: str, question: Mapping[str, Any], number: int, group: str
    ) -> Iterator[LabeledText | Rejected]:
        """Yield the answers of a question; they share its index, by which they are scored together."""
        for answer in maps(question.get("answers")):
            stem, text = question.get("question"), answer.get("text")
            if not isinstance(stem, str) or not isinstance(text, str):
                yield Rejected("fields", number)
                continue
            label = self._label(answer.get("label"))
            if not passage.strip() or not stem.strip() or not text.strip():
                yield Rejected("empty_text", number)
            elif isinstance(label, str):
                yield Rejected(label, number, self._detail(answer.get("label")))
            else:
                yield LabeledText((passage, f"{stem} {text}"), label, None, number, group)

    def _label(self, value: Any) -> int | str:
        """Return the index of a class or choice, or why there is none."""
        labels = self.facts.labels
        if value is None or (value == _HIDDEN and not isinstance(value, bool)):
            return "no_label"
        if labels == _TRUTH:
            return int(value) if value in (0, 1) else "bad_label"
        if self.options.task == "copa":
            return value if value in (0, 1) and not isinstance(value, bool) else "bad_label"
        if isinstance(value, int) and not isinstance(value, bool):
            return value if 0 <= value < len(labels) else "bad_label"
        return labels.index(value) if value in labels else "bad_label"

    def _detail(self, value: Any) -> str:
        known = ", ".join(self.facts.labels) or "the choices 0 and 1"
        return f"the field label holds {value!r}, the task tasks.reader.task={self.options.task} knows {known}"
