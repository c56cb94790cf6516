"""Read multiple choice from tables: a context, the choices, and the index of the correct one."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.readers import (
    Choices,
    Rejected,
    Row,
    RowFile,
    TaskMetadata,
    TaskReader,
    Unfit,
)
from clozeline.extensions.tasks.readers._labels import is_integer
from clozeline.extensions.tasks.readers._official_files import texts_at
from clozeline.extensions.tasks.readers._reader import KEYS
from clozeline.pipeline.ingest.readers._rows import value_at
from clozeline.pipeline.tables import open_table

_ONE_BASED_HINT: Final = (
    "the answer is the number of choices, but choices count from 0; if they count from 1, set "
    "tasks.reader.answers=['1', '2', ...]"
)


class MultipleChoiceReader(TaskReader):
    """Tables or JSON lines with named fields (dotted paths); choices are a list, or one field each.

    Rows have two or more choices. Reasons for rejection: `fields`, a missing field;
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
        """field of a text that starts every choice, such as SWAG's sent2; null: none"""
        choices: Annotated[list[str], Field(min_length=1)] = field(
            default_factory=lambda: ["choices"]
        )
        """field of a list of texts, or the fields of single texts: [ending0, ending1]"""
        answer: str = "label"
        """field of the correct choice: its index from 0, or one of `answers`"""
        answers: list[str] = field(default_factory=list)
        """names of the choices in the answers: [A, B, C, D]; empty: indices"""
        group: str | None = None
        """field with the document of a row, such as SWAG's video-id: no two splits share one;
        null: none"""

    @cached_property
    def spec(self) -> Options:
        """Fields of the task: the options, unless a reader of an official layout sets them."""
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
        file.require(self.spec.context, *self.spec.choices, keys=KEYS)
        return file

    def complete_options(self, splits: Mapping[str, Path]) -> object:
        """Raise ConfigurationError if answers seem to count from 1; else return the options."""
        if self.spec.answers:
            return self.options
        has_zero = False
        above = 0
        where = ""

        for path in {*splits.values()}:
            for item in self.read(self.open(path)):
                has_zero = has_zero or (isinstance(item, Choices) and item.right == 0)
                if isinstance(item, Rejected) and item.detail == _ONE_BASED_HINT:
                    above = above + 1
                    where = where or f"{path}: line {item.index + 1}"

        if above and not has_zero:
            raise ConfigurationError(
                f"{where}: {above:,} answers are the number of choices and none is 0, so they seem "
                "to count from 1: set tasks.reader.answers=['1', '2', ...]"
            )

        return self.options

    def item(self, row: Row, index: int) -> Choices:
        spec = self.spec
        answer = value_at(row, self.spec.answer)
        contexts = texts_at(row, spec.context)
        begins = ("",) if spec.begin is None else texts_at(row, spec.begin)
        choices = tuple(chain.from_iterable(texts_at(row, name) for name in spec.choices))
        if len(contexts) != 1 or len(begins) != 1 or len(choices) < max(2, len(spec.choices)):
            raise Unfit("fields")
        if not all(text.strip() for text in (*contexts, *choices)):
            raise Unfit("empty_text")
        if answer is None:
            raise Unfit("no_label")

        # the index of the correct choice
        text = str(answer).strip()

        if spec.answers:
            right = spec.answers.index(str(answer)) if str(answer) in spec.answers else -1
        else:
            right = int(text) if is_integer(text) else -1

        if right == len(choices):
            raise Unfit("bad_label", _ONE_BASED_HINT)
        if not 0 <= right < len(choices):
            names = ", ".join(spec.answers[: len(choices)]) or f"0 to {len(choices) - 1}"
            detail = f"the answer ({spec.answer}) is {answer!r}, expected {names}"
            raise Unfit(
                "bad_label", f"{detail}; name the choices by tasks.reader.answers=[A, B, ...]"
            )

        group = None if spec.group is None else f"{spec.group} {value_at(row, spec.group)}"
        return Choices(
            contexts[0],
            tuple(f"{begins[0]} {text}".strip() for text in choices),
            right,
            index,
            group,
        )
