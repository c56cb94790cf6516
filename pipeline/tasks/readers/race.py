"""Reader of RACE's folder, reading comprehension of exams (arXiv 1704.04683)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from clozeline.configuration.config import config_class
from clozeline.files import parse_json
from clozeline.pipeline.tasks.readers import Choices, Layout, Rejected, TaskFacts, TaskFile, TaskReader, keep_texts
from clozeline.pipeline.tasks.readers._text_folders import read_text, text_files

_LETTERS: Final = "ABCDEFGHIJ"


class Race(TaskReader):
    """The official folder: `train/middle/1.txt`, each file an article with its questions, as JSON.

    A row is a question; each choice is the question with an option, as in BERT's fine-tuning on SWAG.

    Rejected: `fields`, a file or a question without its parts; `empty_text`; `no_label`; `bad_label`, an answer that is
    not the letter of an option; `bad_utf8`; `record_bytes`, a file that is too long.

    Example (`train/high/1.txt`):
        `{"answers": ["B"], "options": [["at home", "at school"]], "questions": ["Where is _ ?"], "article": "...",
        "id": "high1.txt"}`
    """

    unit: ClassVar[str] = "question"
    in_folders: ClassVar[bool] = True

    @config_class
    class Options:
        level: Literal["middle", "high"] | None = None
        """questions of one level only; null: both"""

    options: Options

    @property
    def facts(self) -> TaskFacts:
        name = "race" if self.options.level is None else f"race_{self.options.level}"
        return TaskFacts(name=name, head="multiple_choice", metrics=("accuracy",), texts=2)

    def open(self, path: Path) -> TaskFile:
        return TaskFile(path, Layout("official folder", data=self._files(path)))

    def companions(self, path: Path) -> tuple[Path, ...]:
        return tuple(file for file in self._files(path) if file != path)

    def _files(self, path: Path) -> tuple[Path, ...]:
        level = self.options.level
        return tuple(file for file in text_files(path) if level is None or file.parent.name == level)

    def read(self, file: TaskFile) -> Iterator[Choices | Rejected]:
        index = 0
        for path in file.layout.data:
            article = self._article(path, index)
            if isinstance(article, Rejected):
                yield article
                index += 1
                continue
            lists = [each for name in ("questions", "options") if isinstance(each := article.get(name), list)]
            for number in range(len(article["questions"])):
                item = self._question(article, number, index, f"{path.parent.name}/{path.name}")
                yield keep_texts(item, [article.get("article"), [each[number : number + 1] for each in lists]])
                index += 1

    def _article(self, path: Path, index: int) -> Mapping[str, Any] | Rejected:
        text, where = read_text(path, index, self.limits), f"{path.parent.name}/{path.name}"
        if isinstance(text, Rejected):
            return text
        try:
            article = parse_json(text)
        except ValueError as error:
            return Rejected("fields", index, f"{where} is no JSON ({error})", (text,))
        questions = article.get("questions") if isinstance(article, Mapping) else None
        if not isinstance(questions, list) or not questions:
            rejected = Rejected("fields", index, f"{where}: expected an object with a list of questions")
            return keep_texts(rejected, article)
        return dict(article)

    def _question(self, article: Mapping[str, Any], number: int, index: int, where: str) -> Choices | Rejected:
        """Return a question of an article with its options."""
        lists = (article["questions"], article.get("options"), article.get("answers"))
        question, options, answer = (
            each[number] if isinstance(each, list) and number < len(each) else None for each in lists
        )
        texts = [article.get("article"), question, *(options if isinstance(options, list) else [])]
        if not all(isinstance(text, str) for text in texts) or not 4 <= len(texts) <= 2 + len(_LETTERS):
            return Rejected("fields", index, f"{where}: question {number + 1} lacks its text or its options")
        context, question, *choices = (text.strip() for text in texts)
        if not context or not all(choices):
            return Rejected("empty_text", index)
        if answer is None:
            return Rejected("no_label", index)
        if answer not in [*_LETTERS[: len(choices)]]:
            known = ", ".join(_LETTERS[: len(choices)])
            return Rejected("bad_label", index, f"{where}: the answer is {answer!r}, expected {known}")
        joined = tuple(f"{question} {choice}".strip() for choice in choices)
        return Choices(context, joined, _LETTERS.index(answer), index, group=where)
