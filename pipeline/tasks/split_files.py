"""Find the split that each input file holds, by the label of its input or the end of its file name."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.inputs import SourceFile

_SPLITS: Final = ("train", "dev", "test")
_NAME: Final = re.compile(r"(?:^|.*_)((?:train|dev|test)(?:_matched|_mismatched)?)(?:_v[0-9]+)?")
_LABEL: Final = re.compile(
    r"(?:train|dev|test)(?:_matched|_mismatched)?|(?:train|dev|test)_[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
)
"""Labels of inputs: those of file names, and further training or evaluation sets, such as other languages."""
_UNNAMED: Final = "default"
"""Default label of an input."""


def split_files(files: Sequence[SourceFile]) -> tuple[dict[str, SourceFile], tuple[SourceFile, ...]]:
    """Return the files of a task by split, and the other files.

    The split is `dev` for dev.tsv, in_domain_dev.tsv, dev-v1.1.json, or an input of `source: dev`.
    If two files of a folder match one split, the shorter name wins: GLUE's folders hold `train.tsv` and the files it
    was made from.

    Raises:
        ConfigurationError: no file is a split, two files are the same split, or a label is not the name of a split.
    """
    splits: dict[str, SourceFile] = {}
    others: list[SourceFile] = []
    for file in sorted(files, key=lambda file: (len(file.path.name), file.source)):
        split = _split_of(file)
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
            "input='[{path: FILE, source: train}, {path: FILE, source: dev}]'"
        )
    return dict(sorted(splits.items())), tuple(others)


def _split_of(file: SourceFile) -> str | None:
    if file.entry.source != _UNNAMED:
        if not _LABEL.fullmatch(file.entry.source):
            raise ConfigurationError(
                f"tasks: input {file.path}: source: expected the name of a split, {', '.join(_SPLITS)} or "
                f"dev_matched, test_de and the like, got {file.entry.source!r}"
            )
        return file.entry.source
    match = _NAME.fullmatch(PurePosixPath(file.source).name.partition(".")[0].replace("-", "_"))
    return match[1] if match else None
