"""Find the split that each input file holds, by the label of its input or the end of its file name."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.inputs import SourceFile
from clozeline.pipeline.tasks.readers import TaskReader
from clozeline.pipeline.tasks.readers._column_files import PART

_SPLITS: Final = ("train", "dev", "test")
_NAME: Final = re.compile(r"(?:^|.*_)((?:train|dev|test|validation|valid|val)(?:_matched|_mismatched)?)(?:_v[0-9]+)?")
_DEV: Final = re.compile(r"validation|valid|val")
"""Other names of dev."""
_LABEL: Final = re.compile(
    r"(?:train|dev|test)(?:_matched|_mismatched)?|(?:train|dev|test)_[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
)
"""Labels of inputs: the names of splits, and further training or evaluation sets, such as other languages."""
_DESCRIPTIONS: Final = frozenset({"dataset_info.json", "dataset_dict.json", "state.json"})
"""Files in which `datasets` describes the tables next to them."""
_UNNAMED: Final = "default"
"""Default label of an input."""


def split_files(
    files: Sequence[SourceFile], reader: type[TaskReader]
) -> tuple[dict[str, SourceFile], tuple[SourceFile, ...]]:
    """Return the files of a task by split, and the other files.

    The split is `dev` for dev.tsv, in_domain_dev.tsv, dev-v1.1.json, validation.parquet, or an input of `source: dev`.
    The first part of a split stands for all of them, if the reader `has_parts`; files that describe tables are left
    out. If it reads `in_folders`, the first text file of a split, which is a folder of folders, does:
    `train/pos/0_9.txt`. Its `split_names` are the splits of further file names.
    If two files of a folder match one split, the shorter name wins: GLUE's folders hold `train.tsv` and the files it
    was made from.

    Raises:
        ConfigurationError: no file is a split, two files are the same split, or a label is not the name of a split.
    """
    splits: dict[str, SourceFile] = {}
    others: list[SourceFile] = []
    kept = [file for file in files if not reader.has_parts or _is_first_part(file.path.name)]
    if reader.in_folders:
        kept, others = _first_texts(kept)
    for file in sorted(kept, key=lambda file: (len(file.path.name), file.source)):
        split = _split_of(file, reader)
        if split is None:
            others.append(file)
        elif split not in splits:
            splits[split] = file
        elif len(splits[split].path.name) < len(file.path.name) and file.entry is splits[split].entry:
            others.append(file)
        else:
            raise ConfigurationError(
                f"tasks: {splits[split].path} and {file.path} are both the split '{split}': name one file of each, "
                f"input='[{{path: FILE, source: {split}}}, ...]'"
            )
    if not splits:
        names = ", ".join(str(file.path) for file in others[:5])
        raise ConfigurationError(
            f"tasks: expected files named train, dev or test (train.tsv), got {names or 'none'}; name them by "
            "input='[{path: FILE, source: train}, {path: FILE, source: dev}]'; to take dev from a single file: "
            "input='[{path: FILE, source: train}]' tasks.carve='{dev: 0.2}'"
            + (", or name folders train, dev and test, with folders of .txt files in them" if reader.in_folders else "")
        )
    return dict(sorted(splits.items())), tuple(others)


def _first_texts(files: Sequence[SourceFile]) -> tuple[list[SourceFile], list[SourceFile]]:
    """Return the first text file of each folder of folders, and the files that are no text of one."""
    first: dict[PurePosixPath, SourceFile] = {}
    others = []
    for file in sorted(files, key=lambda file: file.source):
        folder = PurePosixPath(file.source).parent.parent
        if PurePosixPath(file.source).suffix == ".txt" and folder.name:
            first.setdefault(folder, file)
        else:
            others.append(file)
    return [*first.values()], others


def _split_of(file: SourceFile, reader: type[TaskReader]) -> str | None:
    if file.entry.source != _UNNAMED:
        if not _LABEL.fullmatch(file.entry.source):
            raise ConfigurationError(
                f"tasks: input {file.path}: source: expected the name of a split, {', '.join(_SPLITS)} or "
                f"dev_matched, test_de and the like, got {file.entry.source!r}"
            )
        return file.entry.source
    path = PurePosixPath(file.source)
    part = PART.fullmatch(path.name)
    name = path.name.partition(".")[0] if part is None else path.parent.name if part["name"] == "data" else part["name"]
    if reader.in_folders:
        name = path.parent.parent.name
    if name in reader.split_names:
        return reader.split_names[name]
    match = _NAME.fullmatch(name.replace("-", "_"))
    return _DEV.sub("dev", match[1]) if match else None


def _is_first_part(name: str) -> bool:
    """Return whether a file holds rows of a split and is the first of its parts, or the only one."""
    part = PART.fullmatch(name)
    return name not in _DESCRIPTIONS and (part is None or int(part["part"]) == 0)
