"""Read TREC's questions with types (Li and Roth 2002), and files with a label before a text."""

import re
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Final

from pydantic import BeforeValidator

from clozeline.configuration.config import config_class
from clozeline.extensions.tasks.readers import RowFile
from clozeline.extensions.tasks.readers._labels import as_texts, class_names
from clozeline.extensions.tasks.readers._official_files import open_lines
from clozeline.extensions.tasks.readers._official_layout import OfficialLayout
from clozeline.extensions.tasks.readers.labeled import LabeledReader

_QUESTION_LINE: Final = re.compile(r"(?P<fine>(?P<coarse>[^ :]+):[^ ]+)(?: (?P<text>.*))?")


class TrecReader(OfficialLayout):
    """The official files `train_5500.label` and `TREC_10.label` (Latin-1): type and question.

    Rejected: `fields`, a line without a type such as `NUM:count`; `bad_label`, a type that the
    training file lacks; `empty_text`; `blank_line`.

    Example:
        `DESC:manner How did serfdom develop in and then leave Russia ?`
    """

    split_names: ClassVar[Mapping[str, str]] = {"train_5500": "train", "TREC_10": "test"}
    metrics = ("accuracy",)

    @config_class
    class Options:
        fine: bool = False
        """the 50 fine types such as NUM:count; false: the 6 coarse ones such as NUM"""
        classes: Annotated[list[str] | dict[str, str], BeforeValidator(as_texts)] = field(
            default_factory=list
        )
        """types in order; empty: taken from the training file"""

    options: Options

    @cached_property
    def spec(self) -> LabeledReader.Options:
        classes = {name: name for name in class_names(self.options.classes)}
        return LabeledReader.Options(
            task="trec_fine" if self.options.fine else "trec", label="type", classes=classes
        )

    def open(self, path: Path) -> RowFile:
        expected = "a type and a question such as DESC:manner How ..."
        return open_lines(path, self.limits, "official", expected, self._parse, "latin-1")

    def _parse(self, line: str) -> dict[str, str] | None:
        if (match := _QUESTION_LINE.fullmatch(line)) is None:
            return None
        return {
            "type": match["fine" if self.options.fine else "coarse"],
            "text": (match["text"] or "").strip(),
        }
