"""Reader of multiple choice in tables: a context, the choices, and the index of the correct one."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.readers._rows import value_at
from clozeline.pipeline.tables import open_table
from clozeline.pipeline.tasks.readers import (
    Choices,
    Rejected,
    Row,
    RowFile,
    TaskMetadata,
    TaskReader,
    Unfit,
)
from clozeline.pipeline.tasks.readers._official_files import texts_at

_BEYOND: Final = (
    "the answer is the number of choices, which count from 0; tasks.reader.answers=['1', '2', "
    "...] counts them from 1"
)


class MultipleChoiceReader(TaskReader):
    """Tables or JSON lines whose fields are named, by dotted paths; the choices are one list, or one field each.

    Rows may have different numbers of choices, at least two. Rejected: `fields`, a missing field;
    `empty_text`; `bad_label`, an answer that is not a choice; `no_label`.

    Example (context `goal`, choices `[sol1, sol2]`, answer `label`):
        `{"goal": "open a jar", "sol1": "turn the lid", "sol2": "burn it", "label": 0}`
    """

    @config_class
    class Options:
        task: str = "multiple_choice"
        """name of the task and of its folder"""
        context: str = "context"
        """path of the text before each choice, with dots between nested fields"""
        begin: str | None = None
        """field of a text that starts every choice, as SWAG's sent2; null: none"""
        choices: Annotated[list[str], Field(min_length=1)] = field(
            default_factory=lambda: ["choices"]
        )
        """field of a list of texts, or the fields of single texts: [ending0, ending1]"""
        answer: str = "label"
        """field of the correct choice: its index from 0, or one of `answers`"""
        answers: list[str] = field(default_factory=list)
        """names of the choices in the answers: [A, B, C, D]; empty: indices"""
        group: str | None = None
        """field that names the document of a row, as SWAG's video-id: no two splits share one;
        null: none"""

    @cached_property
    def spec(self) -> Options:
        """Fields of the task: the options; a reader of an official layout makes them of its own."""
        options: MultipleChoiceReader.Options = self.options
        return options

    @property
    def metadata(self) -> TaskMetadata:
        return TaskMetadata(
            name=self.spec.task, head="multiple_choice", metrics=("accuracy",), texts=2
        )

    def input_columns(self, names: Sequence[str]) -> dict[str, list[str]]:
        spec = self.spec
        begin = {} if spec.begin is None else {"begin": [spec.begin]}
        return {"context": [spec.context], "choices": spec.choices} | begin

    def open(self, path: Path) -> RowFile:
        file = open_table(path, self.limits, by_line=True)
        file.require(self.spec.context, *self.spec.choices)
        return file

    def complete_options(self, splits: Mapping[str, Path]) -> object:
        """Refuse answers that count from 1: the number of choices occurs, and 0 does not."""
        if self.spec.answers:
            return self.options
        zero = False
        above = 0
        where = ""
        for path in {*splits.values()}:
            for item in self.read(self.open(path)):
                zero = zero or (isinstance(item, Choices) and item.right == 0)
                if isinstance(item, Rejected) and item.detail == _BEYOND:
                    above = above + 1
                    where = where or f"{path}: line {item.index + 1}"
        if above and not zero:
            raise ConfigurationError(
                f"{where}: {above:,} answers are the number of choices and none is 0, so they "
                "seem to count from 1: "
                "name them by tasks.reader.answers=['1', '2', ...]"
            )
        return self.options

    def item(self, row: Row, index: int) -> Choices:
        spec = self.spec
        answer = value_at(row, self.spec.answer)
        contexts = texts_at(row, spec.context)
        begins = ("",) if spec.begin is None else texts_at(row, spec.begin)
        choices = tuple(text for name in spec.choices for text in texts_at(row, name))
        if len(contexts) != 1 or len(begins) != 1 or len(choices) < max(2, len(spec.choices)):
            raise Unfit("fields")
        if not all(text.strip() for text in (*contexts, *choices)):
            raise Unfit("empty_text")
        if answer is None:
            raise Unfit("no_label")
        text = str(answer).strip()
        if spec.answers:
            right = spec.answers.index(str(answer)) if str(answer) in spec.answers else -1
        else:
            is_index = (
                isinstance(answer, (int, str)) and not isinstance(answer, bool) and text.isdecimal()
            )
            right = int(text) if is_index else -1
        if right == len(choices):
            raise Unfit("bad_label", _BEYOND)
        if not 0 <= right < len(choices):
            names = ", ".join(spec.answers[: len(choices)]) or f"0 to {len(choices) - 1}"
            detail = f"the answer ({spec.answer}) is {answer!r}, expected {names}"
            raise Unfit(
                "bad_label", f"{detail}; tasks.reader.answers=[A, B, ...] names the choices"
            )
        group = None if spec.group is None else f"{spec.group} {value_at(row, spec.group)}"
        return Choices(
            contexts[0],
            tuple(f"{begins[0]} {text}".strip() for text in choices),
            right,
            index,
            group,
        )
