"""SuperGLUE: its tasks and diagnostics in lines of JSON (arXiv 1905.00537)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass as plain_dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.pipeline.tasks.readers import (
    Choices,
    LabeledText,
    Layout,
    Rejected,
    TaskFacts,
    TaskFile,
    TaskItem,
    TaskReader,
)
from clozeline.pipeline.tasks.readers._json_lines import OBJECT_REASONS, Object, field_of, json_objects, require_fields
from clozeline.pipeline.tasks.readers._squad_questions import QUESTION_REASONS, maps, question_of

_TRUTH: Final = ("false", "true")
_ENTAILMENT: Final = ("entailment", "not_entailment")
_HIDDEN: Final = -1
"""Label of the rows of test sets in exports of Hugging Face"""
_QUESTIONS: Final = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}
"""Wording of COPA's two questions (Roemmele et al. 2011)."""


@plain_dataclass(frozen=True)
class _Task:
    """A task: its facts, the fields of a line, and the pair of texts that is made of them."""

    facts: TaskFacts
    fields: tuple[str, ...]
    texts: Callable[[Object], tuple[str, ...]]


def _pair(name: str, labels: tuple[str, ...], metrics: tuple[str, ...], first: str, second: str) -> _Task:
    facts = TaskFacts(name=name, head="classification", labels=labels, metrics=metrics, texts=2)
    return _Task(facts, (first, second), lambda row: (str(row[first]), str(row[second])))


def _word_in_two(row: Object) -> tuple[str, ...]:
    """Return the word with its first sentence, and the second sentence (WiC)."""
    return (f"{row['word']}: {row['sentence1']}", str(row["sentence2"]))


def _pronoun(row: Object) -> tuple[str, ...]:
    """Return the text with its pronoun between asterisks, as T5 marks it, and the noun (WSC)."""
    target, words = row["target"], str(row["text"]).split()
    at = target["span2_index"]
    count = len(str(target["span2_text"]).split())
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
        _classes("wic", ("word", "sentence1", "sentence2"), _word_in_two),
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

    An answer of MultiRC is a row of the passage and the question with the answer; F1 is over all answers, exact match
    over questions, of which all answers must be right. A query of ReCoRD is a question whose answers are the places of
    an entity in the passage, as SQuAD has them, with SQuAD's F1 and exact match; what is found may be any part of the
    text. The rows of a `pair_id` of AX-g differ in a gender: parity is the share of pairs with one class for both.

    A line without a field is refused as `fields`, an answer of MultiRC or a query likewise; so are an `empty_text`, a
    `bad_label`, rows of a file without labels as `no_label`, and queries as SQuAD's questions are. A class may be its
    number, as exports of Hugging Face have it.

    Example (boolq):
        `{"question": "is it", "passage": "It is.", "idx": 0, "label": true}`
    """

    VERSION: ClassVar[int] = 2
    reasons: ClassVar[tuple[str, ...]] = (*OBJECT_REASONS, "empty_text", "bad_label", "no_label", *QUESTION_REASONS[1:])

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """The task."""

        task: Literal["boolq", "cb", "copa", "rte", "wic", "wsc", "axb", "axg", "multirc", "record"]
        """task of the collection"""

    options: Options

    @property
    def facts(self) -> TaskFacts:
        """Facts of the task."""
        return _TASKS[self.options.task].facts

    def open(self, path: Path) -> TaskFile:
        """Return a file whose first line has the fields of the task."""
        first = require_fields(path, self.limits, *_TASKS[self.options.task].fields)
        several = self.options.task in ("multirc", "record")
        return TaskFile(path, Layout("official", several or first.get("label") not in (None, _HIDDEN)))

    def read(self, file: TaskFile) -> Iterator[TaskItem | Rejected]:
        """Yield every row of a file; of MultiRC every answer, of ReCoRD every query."""
        questions = 0
        for index, row in json_objects(file.path, self.limits):
            if isinstance(row, Rejected):
                yield row
            elif any(field_of(row, name) is None for name in _TASKS[self.options.task].fields):
                yield Rejected("fields", index)
            elif self.options.task == "multirc":
                for question in maps(row["passage"]["questions"]):
                    yield from self._answers(str(row["passage"]["text"]), question, questions, f"passage {index}")
                    questions += 1
            elif self.options.task == "record":
                for query in maps(row["qas"]):
                    yield question_of(
                        _to_squad_question(query, questions), row["passage"]["text"], questions, f"passage {index}"
                    )
                    questions += 1
            else:
                yield self._row(row, index)

    def row_count(self, file: TaskFile) -> int:
        """Return the number of lines of a file; of answers for MultiRC and of queries for ReCoRD."""
        task = _TASKS[self.options.task]
        if self.options.task not in ("multirc", "record"):
            return super().row_count(file)
        count = 0
        for _, row in json_objects(file.path, self.limits):
            if isinstance(row, Rejected) or any(field_of(row, name) is None for name in task.fields):
                count += 1
                continue
            holders = [row] if self.options.task == "record" else maps(row["passage"]["questions"])
            lists = (one.get("qas" if self.options.task == "record" else "answers") for one in holders)
            count += sum(len(found) for found in lists if isinstance(found, list))
        return count

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
        question = _QUESTIONS.get(str(row["question"]))
        return (
            Rejected("fields", index)
            if question is None
            else Choices(f"{texts[0]} {question}", texts[1:], label, index)
        )

    def _answers(
        self, passage: str, question: Mapping[str, Any], number: int, group: str
    ) -> Iterator[LabeledText | Rejected]:
        """Yield the answers of a question; they share its number, by which they are judged together."""
        for answer in maps(question.get("answers")):
            asked, text = question.get("question"), answer.get("text")
            if not isinstance(asked, str) or not isinstance(text, str):
                yield Rejected("fields", number)
                continue
            label = self._label(answer.get("label"))
            if not passage.strip() or not asked.strip() or not text.strip():
                yield Rejected("empty_text", number)
            elif isinstance(label, str):
                yield Rejected(label, number, self._detail(answer.get("label")))
            else:
                yield LabeledText((passage, f"{asked} {text}"), label, None, number, group)

    def _label(self, given: Any) -> int | str:
        """Return the number of a class or choice, or the reason for which there is none."""
        labels = self.facts.labels
        if given is None or (given == _HIDDEN and not isinstance(given, bool)):
            return "no_label"
        if labels == _TRUTH:
            return int(given) if given in (0, 1) else "bad_label"
        if self.options.task == "copa":
            return given if given in (0, 1) and not isinstance(given, bool) else "bad_label"
        if isinstance(given, int) and not isinstance(given, bool):
            return given if 0 <= given < len(labels) else "bad_label"
        return labels.index(given) if given in labels else "bad_label"

    def _detail(self, given: Any) -> str:
        known = ", ".join(self.facts.labels) or "the choices 0 and 1"
        return f"the field label holds {given!r}, the task tasks.reader.task={self.options.task} knows {known}"


def _to_squad_question(query: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return a query of ReCoRD as SQuAD writes a question."""
    answers = [{"answer_start": one.get("start"), "text": one.get("text")} for one in maps(query.get("answers"))]
    return {"question": query.get("query"), "id": number, "answers": answers}
