"""Reader of SQuAD: extractive question answering (arXiv 1606.05250), also with unanswerable questions (1806.03822)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Layout, Question, Rejected, TaskFacts, TaskFile, TaskReader, keep_texts
from clozeline.pipeline.tasks.readers._json_file import read_whole_json


def question_of(
    entry: Mapping[str, Any], context: Any, index: int, group: str, *, unanswerable: bool = False
) -> Question | Rejected:
    """Return a question in SQuAD's layout, or why it is rejected.

    The entry has `question`, `id`, and `answers` with `text` and `answer_start`; `unanswerable` keeps one without.
    """
    question, key, accepted = entry.get("question"), entry.get("id"), entry.get("answers", [])
    has_texts = all(isinstance(text, str) and text.strip() for text in (question, context))
    if not has_texts or not isinstance(key, (str, int)) or not isinstance(accepted, list):
        return Rejected("fields", index)
    answers = []
    for answer in [] if entry.get("is_impossible") else accepted:
        start, text = (answer.get(name) for name in ("answer_start", "text")) if isinstance(answer, Mapping) else (0, 0)
        if not isinstance(start, int) or not isinstance(text, str) or not text.strip():
            return Rejected("fields", index)
        if start < 0 or context[start : start + len(text)] != text:
            return Rejected("answer_not_found", index)
        answers.append((start, text))
    if not answers and not unanswerable:
        return Rejected("no_answer", index)
    return Question(str(question), str(context), tuple(answers), str(key), index, group)


def maps(entries: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list; anything else becomes an empty object."""
    for entry in entries if isinstance(entries, list) else []:
        yield entry if isinstance(entry, Mapping) else {}


class Squad(TaskReader):
    """Questions of SQuAD 1.1 and 2.0, and of sets in their layout: XQuAD, CMRC 2018.

    Rejected: `fields`, a question without `question`, `id` or a context; `answer_not_found`, an answer that the context
    does not hold at `answer_start`; `no_answer`, unless `unanswerable` is set.

    Example:
        `{"data": [{"title": "Ada", "paragraphs": [{"context": "Ada wrote.", "qas": [{"id": "1", "question": "Who?",
        "answers": [{"text": "Ada", "answer_start": 0}]}]}]}]}`
    """

    @config_class
    class Options:
        task: str = "squad"
        """name of the task and of its folder"""
        unanswerable: bool = False
        """keep questions without an answer, as in SQuAD 2.0; false: reject them"""

    options: Options

    @property
    def facts(self) -> TaskFacts:
        metrics = ("f1", "exact_match")
        unanswerable = self.options.unanswerable
        return TaskFacts(name=self.options.task, head="span", metrics=metrics, texts=2, unanswerable=unanswerable)

    def open(self, path: Path) -> TaskFile:
        data = read_whole_json(path, self.limits)
        articles = data.get("data") if isinstance(data, Mapping) else None
        if (
            not isinstance(articles, list)
            or not articles
            or not all(isinstance(article, Mapping) for article in articles)
        ):
            raise ConfigurationError(f"{path}: expected SQuAD's layout, an object with a list `data` of articles")
        return TaskFile(path, Layout(f"SQuAD {data.get('version', 'without version')}", data=articles))

    def read(self, file: TaskFile) -> Iterator[Question | Rejected]:
        index = 0
        for number, article in enumerate(file.layout.data):
            group = f"article {article.get('title', number)}"
            for paragraph in maps(article.get("paragraphs")):
                for entry in maps(paragraph.get("qas")):
                    keep = self.options.unanswerable
                    context = paragraph.get("context")
                    yield keep_texts(question_of(entry, context, index, group, unanswerable=keep), [context, entry])
                    index += 1
