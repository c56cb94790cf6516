"""Read SQuAD: extractive question answering (arXiv 1606.05250; 2.0: 1806.03822)."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.readers import (
    Question,
    Rejected,
    Row,
    RowFile,
    TaskItem,
    TaskMetadata,
    TaskReader,
    Unfit,
)
from clozeline.extensions.tasks.readers._task_items import GROUP
from clozeline.pipeline.ingest.formats.file_types import suffix_of
from clozeline.pipeline.tables import read_json_value
from clozeline.pipeline.text.normal_form import NormalForm, normalize_field

_LAYOUT: Final = (
    "expected SQuAD's layout, an object with a list `data` of articles; of rows as `datasets` "
    'saves them, write {"data": [{"paragraphs": [{"context": ..., "qas": [{"id": ..., "question": '
    '..., "answers": [{"text": ..., "answer_start": ...}]}]}, ...]}]}'
)


def question_of(row: Row, index: int, form: NormalForm, *, unanswerable: bool) -> Question:
    """Return the question of a row with a `context`, a group and an `entry` in SQuAD's layout.

    The entry has `question`, `id`, and `answers` with `text` and `answer_start`. Texts are
    converted to the stored form. With `unanswerable`, questions without an answer are kept.
    """
    entry = row["entry"]
    context = row["context"]
    question = entry.get("question")
    key = entry.get("id")
    listed_answers = entry.get("answers", [])
    has_texts = all(isinstance(text, str) and text.strip() for text in (question, context))
    if not has_texts or not isinstance(key, (str, int)) or not isinstance(listed_answers, list):
        raise Unfit("fields")

    answers = []
    stored_context = normalize_field(form, context)

    for answer in [] if entry.get("is_impossible") else listed_answers:
        start, text = (
            (answer.get(name) for name in ("answer_start", "text"))
            if isinstance(answer, Mapping)
            else (0, 0)
        )
        if not isinstance(start, int) or not isinstance(text, str) or not text.strip():
            raise Unfit("fields")
        if start < 0 or context[start : start + len(text)] != text:
            raise Unfit("answer_not_found")
        start = len(normalize_field(form, context[:start]))
        text = normalize_field(form, text)
        # the answer starts or ends inside a character that normalization changed
        if stored_context[start : start + len(text)] != text:
            raise Unfit("answer_not_found")
        answers.append((start, text))

    if not answers and not unanswerable:
        raise Unfit("no_answer")
    if not stored_context.strip():
        raise Unfit("fields")
    stored_question = normalize_field(form, question)
    return Question(
        stored_question, stored_context, tuple(answers), str(key), index, row[GROUP], context
    )


def find_given(form: NormalForm, given: str, start: int, size: int) -> tuple[int, str]:
    r"""Return the first character and the text of an answer in the context as given.

    `start` and `size` are its first character and its length in the stored context.

    Example:
        >>> find_given("prose", "\ufeffKo\u0308ln\r\n, Caf\u00ade.", 7, 4)
        (10, 'Caf\xade')
    """

    def place(stored: int) -> int:
        ends = range(len(given) + 1)
        return bisect_right(ends, stored, key=lambda end: len(normalize_field(form, given[:end])))

    first = place(start) - 1
    return first, given[first : place(start + size) - 1]


def maps(entries: object) -> Iterator[Mapping[str, object]]:
    """Yield the objects of a list; anything else becomes an empty object."""
    for entry in entries if isinstance(entries, list) else []:
        yield entry if isinstance(entry, Mapping) else {}


class SquadReader(TaskReader):
    """Questions of SQuAD 1.1 and 2.0, and of sets with their layout: XQuAD, CMRC 2018.

    Rejected: `fields`, a question without `question`, `id` or a context; `answer_not_found`, an
    answer that the context does not hold at `answer_start`; `no_answer`, unless `unanswerable` is
    set.

    Example:
        `{"data": [{"title": "Ada", "paragraphs": [{"context": "Ada wrote.", "qas": [{"id": "1",
        "question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}]}]}]}]}`
    """

    @config_class
    class Options:
        task: str = "squad"
        """name of the task and of its folder"""
        unanswerable: bool = False
        """keep questions without an answer, as in SQuAD 2.0; false: reject them"""

    options: Options

    @property
    def metadata(self) -> TaskMetadata:
        metrics = ("f1", "exact_match")
        unanswerable = self.options.unanswerable
        return TaskMetadata(
            name=self.options.task, head="span", metrics=metrics, texts=2, unanswerable=unanswerable
        )

    def open(self, path: Path) -> RowFile:
        try:
            data = read_json_value(path, self.limits)
        except ConfigurationError as error:
            raise ConfigurationError(f"{error}; {_LAYOUT}") from error
        articles = [*maps(data.get("data"))] if isinstance(data, Mapping) else []
        if not articles or not all(articles):
            raise ConfigurationError(f"{path}: {_LAYOUT}")

        layout = f"SQuAD {data.get('version', 'without version')}"
        return RowFile(path, layout, lambda: enumerate(_questions(articles)))

    def normalize(self, row: Row) -> Row:
        return row  # `question_of` normalizes texts and moves the starts of answers together

    def item(self, row: Row, index: int) -> Question:
        return question_of(row, index, self.form, unanswerable=self.options.unanswerable)

    def read_unlabeled(self, path: Path) -> Iterator[tuple[TaskItem | Rejected, Any]] | None:
        """Return the questions and ids of a file in SQuAD's layout, with or without answers."""
        if suffix_of(path.name) != ".json":
            return None
        reader = SquadReader(replace(self.options, unanswerable=True), self.limits)
        reader.form = self.form

        def make(row: Row, index: int) -> Question:
            return reader.item({**row, "entry": {**row["entry"], "answers": []}}, index)

        return reader.read_with_placeholders(path, make, lambda row: row["entry"].get("id"))


def _questions(articles: Sequence[Mapping[str, object]]) -> Iterator[Row]:
    for number, article in enumerate(articles):
        for paragraph in maps(article.get("paragraphs")):
            for entry in maps(paragraph.get("qas")):
                group = f"article {article.get('title', number)}"
                yield {"context": paragraph.get("context"), "entry": entry, GROUP: group}
