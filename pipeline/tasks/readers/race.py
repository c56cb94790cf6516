"""Reader of RACE's folder, reading comprehension of exams (arXiv 1704.04683)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from clozeline.configuration.config import config_class
from clozeline.files import parse_json
from clozeline.pipeline.tasks.readers import Choices, Rejected, Row, TaskFile, Unfit
from clozeline.pipeline.tasks.readers._task_items import GROUP
from clozeline.pipeline.tasks.readers._text_lines import read_text, text_files
from clozeline.pipeline.tasks.readers.multiple_choice import MultipleChoice

_LETTERS: Final = "ABCDEFGHIJ"


class Race(MultipleChoice):
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

    @cached_property
    def spec(self) -> MultipleChoice.Options:
        task = "race" if self.options.level is None else f"race_{self.options.level}"
        return MultipleChoice.Options(
            task=task, context="article", begin="question", choices=["options"], answer="answer", answers=[*_LETTERS]
        )

    def open(self, path: Path) -> TaskFile:
        level = self.options.level
        files = tuple(file for file in text_files(path) if level is None or file.parent.name == level)
        return TaskFile(path, "official folder", partial(self._questions, files), others=files)

    def _questions(self, files: Sequence[Path]) -> Iterator[tuple[int, Row | Rejected]]:
        """Yield the questions of all articles, each with the article and its options."""
        index = 0
        for path in files:
            where = f"{path.parent.name}/{path.name}"
            article = self._article(path, index, where)
            if isinstance(article, Rejected):
                yield index, article
                index += 1
                continue
            lists = [article.get(name) for name in ("questions", "options", "answers")]
            columns = [each if isinstance(each, list) else [] for each in lists]
            for question, options, answer in islice(zip_longest(*columns), len(columns[0])):
                texts = {"article": article.get("article"), "question": question, "options": options}
                yield index, {name: _stripped(text) for name, text in texts.items()} | {"answer": answer, GROUP: where}
                index += 1

    def _article(self, path: Path, index: int, where: str) -> Mapping[str, Any] | Rejected:
        text = read_text(path, index, self.limits)
        if isinstance(text, Rejected):
            return text
        article: Any = None
        with suppress(ValueError):
            article = parse_json(text)
        if isinstance(article, Mapping) and isinstance(article.get("questions"), list) and article["questions"]:
            return article
        return Rejected("fields", index, f"{where}: expected an object of JSON with a list of questions", (text,))

    def item(self, row: Row, index: int) -> Choices:
        try:
            return replace(super().item(row, index), group=row[GROUP])
        except Unfit as why:
            raise Unfit(why.reason, why.detail and f"{row[GROUP]}: {why.detail}") from why


def _stripped(value: Any) -> Any:
    return [*map(_stripped, value)] if isinstance(value, list) else value.strip() if isinstance(value, str) else value
