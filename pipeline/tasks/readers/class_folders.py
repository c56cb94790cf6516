"""Reader of a folder of text files per class, such as IMDB's `aclImdb` (Maas et al. 2011)."""

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BeforeValidator

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import LabeledText, Layout, Rejected, TaskFacts, TaskFile, TaskReader, keep_texts
from clozeline.pipeline.tasks.readers._label_cells import as_texts, sort_classes
from clozeline.pipeline.tasks.readers._text_folders import read_text, text_files


class ClassFolders(TaskReader):
    """Splits are folders, with a folder of `.txt` files for each class: `train/pos/0_9.txt`, as in IMDB (Maas 2011).

    The classes are the folders of the training split in alphabetical order, or `classes`.

    Rejected: `no_label`, the files of a folder in `unlabeled`; `bad_label`, those of a folder that is no class;
    `empty_text`; `bad_utf8`; `record_bytes`, a file that is too long.
    """

    unit: ClassVar[str] = "file"
    in_folders: ClassVar[bool] = True

    @config_class
    class Options:
        task: str = "texts"
        """name of the task and of its folder"""
        classes: Annotated[list[str], BeforeValidator(as_texts)] = field(default_factory=list)
        """folder names of the classes in order; empty: taken from the training split"""
        unlabeled: list[str] = field(default_factory=lambda: ["unsup"])
        """folders of texts without a class"""

    options: Options

    @property
    def facts(self) -> TaskFacts:
        labels = tuple(self.options.classes)
        return TaskFacts(name=self.options.task, head="classification", labels=labels, metrics=("accuracy", "macro_f1"))

    def open(self, path: Path) -> TaskFile:
        return TaskFile(path, Layout("a folder per class", data=text_files(path)))

    def companions(self, path: Path) -> tuple[Path, ...]:
        return tuple(file for file in text_files(path) if file != path)

    def complete_options(self, splits: Mapping[str, Path]) -> Options:
        if self.options.classes:
            return self.options
        training = [path for split, path in splits.items() if split.startswith("train")] or [*splits.values()]
        found = {file.parent.name for path in training for file in text_files(path)} - {*self.options.unlabeled}
        if len(found) < 2:
            raise ConfigurationError(
                f"{training[0].parent.parent}: expected a folder per class, two or more, with .txt files, got "
                f"{', '.join(sorted(found)) or 'none'}"
            )
        return replace(self.options, classes=sort_classes(found))

    def read(self, file: TaskFile) -> Iterator[LabeledText | Rejected]:
        for index, path in enumerate(file.layout.data):
            name = path.parent.name
            text = read_text(path, index, self.limits)
            if name in self.options.unlabeled:
                yield keep_texts(Rejected("no_label", index), text)
            elif name not in self.label_numbers:
                known = ", ".join(self.options.classes)
                rejected = Rejected("bad_label", index, f"the folder {name} is no class, expected {known}")
                yield keep_texts(rejected, text)
            elif isinstance(text, Rejected):
                yield text
            elif not text.strip():
                yield Rejected("empty_text", index, f"{name}/{path.name}")
            else:
                yield LabeledText((text.strip(),), self.label_numbers[name], None, index)
