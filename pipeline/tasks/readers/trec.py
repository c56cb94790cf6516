"""Reader of TREC's questions and their types (Li and Roth 2002), and of other files with a label before each text."""

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BeforeValidator

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import LabeledText, Layout, Rejected, TaskFacts, TaskFile, TaskReader
from clozeline.pipeline.tasks.readers._label_cells import as_texts, sort_classes
from clozeline.pipeline.tasks.readers._text_lines import text_lines


class Trec(TaskReader):
    """The official files `train_5500.label` and `TREC_10.label`, in Latin-1: a type, a blank, and the question.

    Rejected: `fields`, a line without a type such as `NUM:count`; `bad_label`, a type that the training file lacks;
    `empty_text`; `blank_line`.

    Example:
        `DESC:manner How did serfdom develop in and then leave Russia ?`
    """

    split_names: ClassVar[Mapping[str, str]] = {"train_5500": "train", "TREC_10": "test"}

    @config_class
    class Options:
        fine: bool = False
        """the 50 fine types such as NUM:count; false: the 6 coarse ones such as NUM"""
        classes: Annotated[list[str], BeforeValidator(as_texts)] = field(default_factory=list)
        """types in order; empty: taken from the training file"""
        encoding: str = "latin-1"
        """encoding of the files"""

    options: Options

    @property
    def facts(self) -> TaskFacts:
        name = "trec_fine" if self.options.fine else "trec"
        return TaskFacts(name=name, head="classification", labels=tuple(self.options.classes), metrics=("accuracy",))

    def open(self, path: Path) -> TaskFile:
        first = next(iter(self._rows(path)), None)
        if first is None or isinstance(first, Rejected):
            found = "an empty file" if first is None else first.detail or first.reason.replace("_", " ")
            expected = "a type and a question such as DESC:manner How ..."
            raise ConfigurationError(f"{path}: line 1: expected {expected}, got {found}")
        return TaskFile(path, Layout("official"))

    def complete_options(self, splits: Mapping[str, Path]) -> Options:
        if self.options.classes:
            return self.options
        training = [path for split, path in splits.items() if split.startswith("train")] or [*splits.values()]
        rows = (row for path in training for row in self._rows(path))
        return replace(self.options, classes=sort_classes(row[1] for row in rows if not isinstance(row, Rejected)))

    def read(self, file: TaskFile) -> Iterator[LabeledText | Rejected]:
        for row in self._rows(file.path):
            if isinstance(row, Rejected):
                yield row
                continue
            index, label, text = row
            if label not in self.label_numbers:
                known = ", ".join(self.options.classes[:10])
                yield Rejected("bad_label", index, f"the type {label} is none of {known}", (text,))
            elif not text:
                yield Rejected("empty_text", index)
            else:
                yield LabeledText((text,), self.label_numbers[label], None, index)

    def _rows(self, path: Path) -> Iterator[tuple[int, str, str] | Rejected]:
        """Yield index, type and question of each line."""
        for index, line in text_lines(path, self.limits, self.options.encoding):
            if isinstance(line, Rejected):
                yield line
            elif not line.strip():
                yield Rejected("blank_line", index)
            else:
                label, _, text = line.partition(" ")
                coarse, colon, fine = label.partition(":")
                if not (coarse and colon and fine):
                    detail = f"it begins with {label[:40]!r}, expected a type such as NUM:count"
                    yield Rejected("fields", index, detail, (line,))
                else:
                    yield index, label if self.options.fine else coarse, text.strip()
