"""Read the folder of RACE, reading comprehension from exams (arXiv 1704.04683)."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import islice, zip_longest
from pathlib import Path
from typing import Final, Literal

from clozeline.configuration.config import config_class
from clozeline.extensions.tasks.readers import Choices, Rejected, Row, RowFile, Unfit
from clozeline.extensions.tasks.readers._official_files import open_folder, text_files
from clozeline.extensions.tasks.readers._task_items import GROUP
from clozeline.extensions.tasks.readers.multiple_choice import MultipleChoiceReader
from clozeline.files import parse_json

_CHOICE_LETTERS: Final = "ABCDEFGHIJ"


class RaceReader(MultipleChoiceReader):
    """The official folder: `train/middle/1.txt`, one JSON file per article with its questions.

    A row is a question; each choice is the question with an option, as in BERT's fine-tuning on
    SWAG.

    Rejected: `fields`, a file or a question without its parts; `empty_text`; `no_label`;
    `bad_label`, an answer that is not the letter of an option; `charset`; `too_large`, a file that
    is too long.

    Example (`train/high/1.txt`):
        `{"answers": ["B"], "options": [["at home", "at school"]], "questions": ["Where is _ ?"],
        "article": "...", "id": "high1.txt"}`
    """

    unit = "question"
    in_folders: bool = True

    @config_class
    class Options:
        level: Literal["middle", "high"] | None = None
        """questions of one level only; null: both"""

    options: Options

    @cached_property
    def spec(self) -> MultipleChoiceReader.Options:
        task = "race" if self.options.level is None else f"race_{self.options.level}"
        return MultipleChoiceReader.Options(
            task=task,
            context="article",
            begin="question",
            choices=["options"],
            answer="answer",
            answers=[*_CHOICE_LETTERS],
        )

    def open(self, path: Path) -> RowFile:
        level = self.options.level
        files = [file for file in text_files(path) if level is None or file.parent.name == level]
        return open_folder(path, files, self.limits, "official folder", _questions)

    def item(self, row: Row, index: int) -> Choices:
        try:
            return replace(super().item(row, index), group=row[GROUP])
        except Unfit as error:
            detail = error.detail and f"{row[GROUP]}: {error.detail}"
            raise Unfit(error.reason, detail) from error


def _questions(path: Path, text: str) -> Iterator[Row | Rejected]:
    """Yield the questions of an article, each with the article and its options."""
    where = f"{path.parent.name}/{path.name}"
    article = None
    with suppress(ValueError):
        article = parse_json(text)
    fields = article if isinstance(article, Mapping) else {}
    columns = [
        each if isinstance(each := fields.get(name), list) else []
        for name in ("questions", "options", "answers")
    ]
    if not columns[0]:
        yield Rejected(
            "fields", 0, f"{where}: expected a JSON object with a list of questions", (text,)
        )

    for question, options, answer in islice(zip_longest(*columns), len(columns[0])):
        texts = {"article": fields.get("article"), "question": question, "options": options}
        stripped = {name: _strip(value) for name, value in texts.items()}
        yield {**stripped, "answer": answer, GROUP: where}


def _strip(value: object) -> object:
    if isinstance(value, list):
        return [*map(_strip, value)]
    return value.strip() if isinstance(value, str) else value
