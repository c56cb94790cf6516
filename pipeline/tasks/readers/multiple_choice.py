"""Reader of multiple choice in JSON lines: a context, the choices, and the index of the correct one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Choices, Layout, Rejected, TaskFacts, TaskFile, TaskReader, keep_texts
from clozeline.pipeline.tasks.readers._json_lines import Object, field_of, json_objects, require_fields, texts_in
from clozeline.pipeline.tasks.readers._text_lines import align_lines, text_lines

_BEYOND: Final = (
    "the answer is the number of choices, which count from 0; tasks.reader.answers=['1', '2', ...] counts them from 1"
)


class MultipleChoice(TaskReader):
    """JSON lines whose fields are named by dotted paths; the choices are one list, or one field each.

    Rows may have different numbers of choices, at least two. Answers may be in a separate file (`labels`).
    Rejected: `fields`, a missing field; `empty_text`; `bad_label`, an answer that is not a choice; `no_label`;
    `unaligned`, a line of the longer file.

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
        choices: Annotated[list[str], Field(min_length=1)] = field(default_factory=lambda: ["choices"])
        """field of a list of texts, or the fields of single texts: [ending0, ending1]"""
        answer: str = "label"
        """field of the correct choice: its index from 0, or one of `answers`"""
        answers: list[str] = field(default_factory=list)
        """names of the choices in the answers: [A, B, C, D]; empty: indices"""
        labels: str | None = None
        """suffix of the file of answers: -labels.lst if valid.jsonl has valid-labels.lst; null: none"""

    options: Options

    @property
    def facts(self) -> TaskFacts:
        return TaskFacts(name=self.options.task, head="multiple_choice", metrics=("accuracy",), texts=2)

    def input_columns(self, names: Sequence[str]) -> dict[str, list[str]]:
        options = self.options
        begin = {} if options.begin is None else {"begin": [options.begin]}
        return {"context": [options.context], "choices": options.choices} | begin

    def open(self, path: Path) -> TaskFile:
        """Check that the first line has the context and the choices; add the file of answers."""
        require_fields(path, self.limits, self.options.context, *self.options.choices)
        if (labels := self.second_file(path)) is None:
            return TaskFile(path, Layout("JSON lines"))
        if not labels.is_file():
            raise ConfigurationError(f"{path}: expected the file {labels.name} with the answers in the same folder")
        return TaskFile(path, Layout("JSON lines with a file of answers", files=(labels,)))

    def complete_options(self, splits: Mapping[str, Path]) -> Options:
        """Refuse answers that count from 1: the number of choices occurs, and 0 does not."""
        if self.options.answers:
            return self.options
        zero, above, where = False, 0, ""
        for path in {*splits.values()}:
            for item in self.read(self.open(path)):
                zero = zero or (isinstance(item, Choices) and item.right == 0)
                if isinstance(item, Rejected) and item.detail == _BEYOND:
                    above, where = above + 1, where or f"{path}: line {item.index + 1}"
        if above and not zero:
            raise ConfigurationError(
                f"{where}: {above:,} answers are the number of choices and none is 0, so they seem to count from 1: "
                "name them by tasks.reader.answers=['1', '2', ...]"
            )
        return self.options

    def read(self, file: TaskFile) -> Iterator[Choices | Rejected]:
        rows = json_objects(file.path, self.limits)
        if not file.layout.files:
            for index, row in rows:
                answer = None if isinstance(row, Rejected) else field_of(row, self.options.answer)
                yield row if isinstance(row, Rejected) else keep_texts(self._parse(row, answer, index), row)
            return
        for index, pair in enumerate(align_lines(rows, text_lines(file.layout.files[0], self.limits))):
            if isinstance(pair, Rejected):
                yield pair
            else:
                yield keep_texts(self._parse(pair[0], pair[1].strip() or None, index), pair[0])

    def second_file(self, path: Path) -> Path | None:
        suffix = self.options.labels
        return None if suffix is None else path.with_name(path.name.partition(".")[0] + suffix)

    def _parse(self, row: Object, answer: object, index: int) -> Choices | Rejected:
        options = self.options
        contexts = texts_in(row, options.context)
        begins = ("",) if options.begin is None else texts_in(row, options.begin)
        choices = tuple(text for name in options.choices for text in texts_in(row, name))
        if len(contexts) != 1 or len(begins) != 1 or len(choices) < max(2, len(options.choices)):
            return Rejected("fields", index)
        if not all(text.strip() for text in (*contexts, *choices)):
            return Rejected("empty_text", index)
        if answer is None:
            return Rejected("no_label", index)
        text = str(answer).strip()
        if options.answers:
            right = options.answers.index(str(answer)) if str(answer) in options.answers else -1
        else:
            is_index = isinstance(answer, (int, str)) and not isinstance(answer, bool) and text.isdecimal()
            right = int(text) if is_index else -1
        if right == len(choices):
            return Rejected("bad_label", index, _BEYOND)
        if not 0 <= right < len(choices):
            names = ", ".join(options.answers[: len(choices)]) or f"0 to {len(choices) - 1}"
            detail = f"the answer ({options.labels or options.answer}) is {answer!r}, expected {names}"
            return Rejected("bad_label", index, f"{detail}; tasks.reader.answers=[A, B, ...] names the choices")
        return Choices(contexts[0], tuple(f"{begins[0]} {text}".strip() for text in choices), right, index)
