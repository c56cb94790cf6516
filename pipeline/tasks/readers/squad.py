"""SQuAD: questions whose answers are parts of a text (arXiv 1606.05250), or that have none (arXiv 1806.03822)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass as plain_dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Layout, Question, Rejected, TaskFacts, TaskFile, TaskReader
from clozeline.pipeline.tasks.readers._json_file import read_whole_json
from clozeline.pipeline.tasks.readers._squad_questions import QUESTION_REASONS, maps, question_of


@plain_dataclass(frozen=True, kw_only=True)
class _Articles(Layout):
    articles: list[Any]


class Squad(TaskReader):
    """Questions of SQuAD 1.1 and 2.0, and of sets in their layout: XQuAD, CMRC 2018.

    A question without `question`, `id` or a context is refused as `fields`, one with an answer that its context does
    not hold at `answer_start` as `answer_not_found`: it would teach a wrong place. One without answers is refused as
    `no_answer`, but is kept with `unanswerable`.

    Example:
        `{"data": [{"title": "Ada", "paragraphs": [{"context": "Ada wrote.", "qas": [{"id": "1", "question": "Who?",
        "answers": [{"text": "Ada", "answer_start": 0}]}]}]}]}`
    """

    VERSION: ClassVar[int] = 1
    reasons: ClassVar[tuple[str, ...]] = QUESTION_REASONS

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """The task."""

        task: str = "squad"
        """name of the task, and of the folder of its sets"""
        unanswerable: bool = False
        """keep questions without an answer, as SQuAD 2.0 has them; false: refuse them"""

    options: Options

    @property
    def facts(self) -> TaskFacts:
        """Facts of the task."""
        metrics = ("f1", "exact_match")
        unanswerable = self.options.unanswerable
        return TaskFacts(name=self.options.task, head="span", metrics=metrics, texts=2, unanswerable=unanswerable)

    def open(self, path: Path) -> TaskFile:
        """Return a file whose `data` is a list of articles."""
        data = read_whole_json(path, self.limits)
        articles = data.get("data") if isinstance(data, Mapping) else None
        if not isinstance(articles, list) or not articles or not all(isinstance(one, Mapping) for one in articles):
            raise ConfigurationError(f"{path}: expected SQuAD's layout, an object with a list `data` of articles")
        return TaskFile(path, _Articles(name=f"SQuAD {data.get('version', 'without version')}", articles=articles))

    def read(self, file: TaskFile) -> Iterator[Question | Rejected]:
        """Yield every question of a file."""
        index = 0
        for number, article in enumerate(file.layout.articles):
            group = f"article {article.get('title', number)}"
            for paragraph in maps(article.get("paragraphs")):
                for asked in maps(paragraph.get("qas")):
                    yield question_of(
                        asked, paragraph.get("context"), index, group, unanswerable=self.options.unanswerable
                    )
                    index += 1

    def row_count(self, file: TaskFile) -> int:
        """Return the number of questions of a file."""
        paragraphs = (one for article in file.layout.articles for one in maps(article.get("paragraphs")))
        return sum(len(asked) for one in paragraphs if isinstance(asked := one.get("qas"), list))
