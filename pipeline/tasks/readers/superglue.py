"""Reader of SuperGLUE's tasks and diagnostics, in JSON lines (arXiv 1905.00537)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from clozeline.configuration.config import config_class
from clozeline.pipeline.tasks.readers import (
    Choices,
    LabeledText,
    Question,
    Rejected,
    Row,
    TaggedWords,
    TaskFacts,
    TaskFile,
    TaskItem,
    Unfit,
)
from clozeline.pipeline.tasks.readers._column_files import open_table, value_at
from clozeline.pipeline.tasks.readers._official_layout import OfficialLayout, numbered
from clozeline.pipeline.tasks.readers._task_items import GROUP, keep_texts
from clozeline.pipeline.tasks.readers._text_lines import text_lines
from clozeline.pipeline.tasks.readers.labelled import Labelled
from clozeline.pipeline.tasks.readers.multiple_choice import MultipleChoice
from clozeline.pipeline.tasks.readers.squad import maps, question_of

_TRUTH: Final = {"False": "false", "True": "true", "0": "false", "1": "true"}
_ENTAILMENT: Final = numbered(("entailment", "not_entailment"))
_MADE: Final = ("text", "text_pair")
"""Texts that are made of the fields of a line."""
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "boolq": ("question", "passage"), "cb": ("premise", "hypothesis"), "rte": ("premise", "hypothesis"),
    "axb": ("sentence1", "sentence2"), "axg": ("premise", "hypothesis"), "wic": ("word", "sentence1", "sentence2"),
    "wsc": ("text", "target.span1_text", "target.span2_text", "target.span2_index"),
    "copa": ("premise", "choice1", "choice2", "question"), "multirc": ("passage.text", "passage.questions"),
    "record": ("passage.text", "qas"),
}  # fmt: skip
"""Fields of a line; two are the texts as they stand."""
_CLASSES: Final = {"cb": numbered(("entailment", "contradiction", "neutral")),
                   **dict.fromkeys(("rte", "axb", "axg"), _ENTAILMENT)}  # fmt: skip
"""Classes by their values; the other tasks ask what is true."""
_METRICS: Final = {"cb": ("macro_f1", "accuracy"), "axb": ("matthews_correlation",),
                   "axg": ("accuracy", "gender_parity"), "multirc": ("f1", "exact_match")}  # fmt: skip
_QUESTIONS: Final = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}
"""Wording of COPA's two questions (Roemmele et al. 2011)."""


class Superglue(OfficialLayout):
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

    @cached_property
    def spec(self) -> Labelled.Options:
        task = self.options.task
        first, second = fields if len(fields := _FIELDS[task]) == 2 and task not in _SPLIT else _MADE
        classes = _CLASSES.get(task, _TRUTH)
        return Labelled.Options(
            task=task, text=[first], text_pair=[second], label="label", classes=classes, no_label=["-1"]
        )

    @property
    def facts(self) -> TaskFacts:
        task = self.options.task
        if task == "copa":
            return self._choice.facts
        if task == "record":
            return TaskFacts(name=task, head="span", metrics=("f1", "exact_match"), texts=2)
        positive = 1 if task == "multirc" else None
        return replace(super().facts, metrics=_METRICS.get(task, ("accuracy",)), positive=positive)

    @cached_property
    def _choice(self) -> MultipleChoice:
        return MultipleChoice(MultipleChoice.Options(task="copa"), self.limits)

    def open(self, path: Path) -> TaskFile:
        file, task = open_table(path, self.limits), self.options.task
        file.require(*_FIELDS[task])
        _, first = next(file.rows(), (0, {}))
        hidden = isinstance(first, Rejected) or first.get("label") in (None, -1)
        has_labels = task in ("multirc", "record") or not hidden
        return replace(file, layout="official", has_labels=has_labels, rows=partial(self._examples, file))

    def _examples(self, file: TaskFile) -> Iterator[tuple[int, Row | Rejected]]:
        """Yield a row for each example: answers of MultiRC, queries of ReCoRD, lines of the other tasks.

        The answers of a question share its index, by which they are scored together.
        """
        task, count = self.options.task, 0
        for index, row in file.rows():
            if isinstance(row, Rejected):
                yield index, row
            elif any(value_at(row, name) is None for name in _FIELDS[task]):
                yield index, keep_texts(Rejected("fields", index), row)
            elif task in _SPLIT:
                for examples in _SPLIT[task](row):
                    yield from ((count, {**example, GROUP: f"passage {index}"}) for example in examples)
                    count += 1
            else:
                try:
                    yield index, {**row, **_TEXTS[task](row)} if task in _TEXTS else _stripped(row, self.spec)
                except Unfit as why:
                    yield index, keep_texts(Rejected(why.reason, index), row)

    def item(self, row: Row, index: int) -> LabeledText | TaggedWords | Choices | Question:  # type: ignore[override]
        task = self.options.task
        if task == "record":
            has_answers = row.get("answers", True)
            entry = {**row["entry"], "id": index} | ({} if has_answers else {"answers": []})
            return question_of({**row, "entry": entry}, index, unanswerable=not has_answers)
        if task == "copa":
            label = row.get("label")
            return self._choice.item({**row, "label": None if label == -1 else label}, index)
        item = super().item(row, index)
        if task == "axg":
            pair = row.get("pair_id")
            return replace(item, index=pair if isinstance(pair, int) else index // 2)
        return item

    def read_unlabeled(self, path: Path) -> Iterator[tuple[TaskItem | Rejected, Any]] | None:
        """Return every row with the `idx` that names it in a submission; for MultiRC, of text, question and answer.

        None for a file that has no JSON lines.
        """
        _, line = next(text_lines(path, self.limits), (0, ""))
        return self._unlabeled_rows(path) if isinstance(line, str) and line.lstrip().startswith("{") else None

    def _unlabeled_rows(self, path: Path) -> Iterator[tuple[TaskItem | Rejected, Any]]:
        for count, (_, row) in enumerate(self.open(path).rows()):
            if isinstance(row, Rejected):
                yield replace(row, index=count), None
                continue
            item: Any = self.build({**row, "label": 0, "answers": False}, count)
            yield replace(item, index=count), row.get("idx")


def _stripped(row: Row, spec: Labelled.Options) -> Row:
    texts = {name: row[name] for name in (*spec.text, *spec.text_pair)}
    return {**row, **{name: text.strip() if isinstance(text, str) else text for name, text in texts.items()}}


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _word_in_context(row: Row) -> Row:
    return {"text": f"{row['word']}: {row['sentence1']}".strip(), "text_pair": str(row["sentence2"]).strip()}


def _pronoun(row: Row) -> Row:
    """Return the text with its pronoun between asterisks, as T5 marks it, and the noun (WSC)."""
    target, words = row["target"], str(row["text"]).split()
    at, pronoun = target["span2_index"], str(target["span2_text"])
    end = at + len(pronoun.split()) if isinstance(at, int) else 0
    if not end or _letters("".join(words[at:end])) != _letters(pronoun):
        raise Unfit("fields")  # another word stands at the index of the pronoun
    marked = [*words[:at], "*", *words[at:end], "*", *words[end:]]
    return {"text": " ".join(marked), "text_pair": str(target["span1_text"]).strip()}


def _plausible_choice(row: Row) -> Row:
    if (question := _QUESTIONS.get(str(row["question"]))) is None:
        raise Unfit("fields")
    premise, *choices = (str(row[name]).strip() for name in ("premise", "choice1", "choice2"))
    return {"context": f"{premise} {question}" if premise else "", "choices": choices}


def _answers(row: Row) -> Iterator[Iterator[Row]]:
    """Yield the answers of each question."""
    passage = str(row["passage"]["text"])
    for question in maps(row["passage"]["questions"]):
        yield (_answer(row, passage, question, answer) for answer in maps(question.get("answers")))


def _answer(row: Row, passage: str, question: Row, answer: Row) -> Row:
    stem, text = question.get("question"), answer.get("text")
    pair = f"{stem} {text}" if isinstance(stem, str) and isinstance(text, str) else None
    if pair is not None and not (str(stem).strip() and str(text).strip()):
        pair = ""
    idx = [row.get("idx"), question.get("idx"), answer.get("idx")]
    return {"text": passage, "text_pair": pair, "question": stem, "label": answer.get("label"), "idx": idx}


def _queries(row: Row) -> Iterator[list[Row]]:
    """Yield each query in SQuAD's layout."""
    for query in maps(row["qas"]):
        answers = [{"answer_start": span.get("start"), "text": span.get("text")} for span in maps(query.get("answers"))]
        entry = {"question": query.get("query"), "answers": answers}
        yield [{"context": row["passage"]["text"], "entry": entry, "idx": query.get("idx")}]


_TEXTS: Final[Mapping[str, Callable[[Row], Row]]] = {
    "wic": _word_in_context, "wsc": _pronoun, "copa": _plausible_choice,
}  # fmt: skip
"""Make the texts of a row from the fields of a line."""
_SPLIT: Final[Mapping[str, Callable[[Row], Iterator[Any]]]] = {"multirc": _answers, "record": _queries}
"""Make groups of rows that share an index from a line."""
