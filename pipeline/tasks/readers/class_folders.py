"""Reader of a folder of text files per class, such as IMDB's `aclImdb` (Maas et al. 2011)."""

from collections.abc import Iterable, Iterator
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from clozeline.configuration.config import config_class
from clozeline.pipeline.tasks.readers import Rejected, Row, TaskFile
from clozeline.pipeline.tasks.readers._column_files import open_folder
from clozeline.pipeline.tasks.readers._labels import ClassNames
from clozeline.pipeline.tasks.readers._text_lines import text_files
from clozeline.pipeline.tasks.readers.labelled import Labelled, OfficialLayout


class ClassFolders(OfficialLayout):
    """Splits are folders, with a folder of `.txt` files for each class: `train/pos/0_9.txt`, as in IMDB (Maas 2011).

    The classes are the folders of the training split in alphabetical order, or `classes`.

    Rejected: `no_label`, the files of a folder `unsup`; `bad_label`, those of a folder that is no class;
    `empty_text`; `bad_utf8`; `record_bytes`, a file that is too long.
    """

    unit: ClassVar[str] = "file"
    in_folders: ClassVar[bool] = True

    @config_class
    class Options:
        task: str = "texts"
        """name of the task and of its folder"""
        classes: ClassNames = field(default_factory=list)
        """folder names of the classes in order; empty: taken from the training split"""

    options: Options

    @cached_property
    def spec(self) -> Labelled.Options:
        classes = {name: name for name in self.options.classes}
        return Labelled.Options(task=self.options.task, label="folder", classes=classes, no_label=["unsup"])

    def open(self, path: Path) -> TaskFile:
        return open_folder(path, text_files(path), self.limits, "a folder per class", _texts)

    def _rows(self, paths: Iterable[Path]) -> Iterator[tuple[str, Row]]:
        # classes are known without the texts
        yield from ((str(file), {"folder": file.parent.name}) for path in paths for file in text_files(path))


def _texts(path: Path, text: str) -> list[Row | Rejected]:
    return [{"folder": path.parent.name, "text": text.strip()}]
