"""Reader of SWAG: four endings of a short story (arXiv 1808.05326)."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Choices, Layout, Rejected, TaskFacts, TaskFile, TaskReader, keep_texts
from clozeline.pipeline.tasks.readers._text_lines import text_lines

_ENDINGS: Final = ("ending0", "ending1", "ending2", "ending3")
_NEEDED: Final = ("video-id", "sent1", "sent2", *_ENDINGS)


class Swag(TaskReader):
    r"""The authors' CSV files, by the names of their header.

    The context is `sent1`, a choice `sent2` and an ending. The rows of a video form a group. Rejected: `fields`, wrong
    number of fields or an unclosed quote; `empty_text`; `bad_label`, not 0 to 3; `no_label`, a file without labels.

    Example:
        `,video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label`, then
        `0,lsmdc1,7,A man. He,A man waits.,He,gold,leaves.,sings.,falls.,eats.,0`
    """

    @config_class
    class Options:
        task: str = "swag"
        """name of the task and of its folder"""

    options: Options

    @property
    def facts(self) -> TaskFacts:
        return TaskFacts(name=self.options.task, head="multiple_choice", metrics=("accuracy",), texts=2)

    def input_columns(self, names: Sequence[str]) -> dict[str, list[str]]:
        return {"context": ["sent1"], "begin": ["sent2"], "choices": [*_ENDINGS]}

    def open(self, path: Path) -> TaskFile:
        _, first = next(self._rows(path), (0, Rejected("empty file", 0)))
        columns = () if isinstance(first, Rejected) else tuple(first)
        if missing := [name for name in _NEEDED if name not in columns]:
            raise ConfigurationError(
                f"{path}: expected SWAG's header, with {', '.join(_NEEDED)} and label, got "
                f"{', '.join(columns)[:80] or 'none'} without {', '.join(missing)}"
            )
        has_labels = "label" in columns
        return TaskFile(path, Layout("official" if has_labels else "official test", has_labels, data=columns))

    def read(self, file: TaskFile) -> Iterator[Choices | Rejected]:
        columns, rows = file.layout.data, self._rows(file.path)
        next(rows)
        for index, row in rows:
            if isinstance(row, Rejected):
                yield row
            elif len(row) != len(columns):
                yield keep_texts(Rejected("fields", index), list(row))
            else:
                yield keep_texts(self._row(dict(zip(columns, row, strict=True)), index), list(row))

    def _row(self, row: dict[str, str], index: int) -> Choices | Rejected:
        context, endings = row["sent1"].strip(), [row[name].strip() for name in _ENDINGS]
        if not context or not all(endings):
            return Rejected("empty_text", index)
        if "label" not in row:
            return Rejected("no_label", index)
        label = row["label"].strip()
        if label not in ("0", "1", "2", "3"):
            return Rejected("bad_label", index, f"the column label holds {label!r}, expected 0 to 3")
        choices = tuple(f"{row['sent2'].strip()} {ending}".strip() for ending in endings)
        return Choices(context, choices, int(label), index, f"video {row['video-id']}")

    def _rows(self, path: Path) -> Iterator[tuple[int, Sequence[str] | Rejected]]:
        """Yield the index and the fields of each line; a stray quote costs a single line."""
        for index, line in text_lines(path, self.limits):
            if isinstance(line, Rejected):
                yield index, line
                continue
            try:
                yield index, next(csv.reader([line], strict=True), [])
            except csv.Error:
                yield index, Rejected("fields", index, texts=(line,))
