"""Find the splits of a task: their files, shares of train, and rows that two splits share."""

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from pathlib import PurePosixPath
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.readers import (
    Choices,
    LabeledText,
    Question,
    Rejected,
    TaggedWords,
    TaskItem,
    TaskReader,
)
from clozeline.pipeline.execution.inputs import SourceFile
from clozeline.pipeline.tables import PART
from clozeline.seeding import hash64

_SPLITS: Final = ("train", "dev", "test")
_SPLIT_FILE_NAME: Final = re.compile(
    r"(?:^|.*_)((?:train|dev|test|validation|valid|val)(?:_matched|_mismatched)?)(?:_v[0-9]+)?"
)
_DEV_SYNONYM: Final = re.compile(r"validation|valid|val")
"""Other names of the split dev in file names."""
_SPLIT_LABEL: Final = re.compile(
    r"(?:train|dev|test)(?:_matched|_mismatched)?|(?:train|dev|test)_[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
)
"""Valid labels of inputs: names of splits, and of further training or evaluation sets, such as sets
in other languages."""
_DESCRIPTION_FILES: Final = frozenset({"dataset_info.json", "dataset_dict.json", "state.json"})
"""Files in which `datasets` describes the tables next to them."""
_DEFAULT_LABEL: Final = "default"
"""Default label of an input."""
_HASH_VALUES: Final = 1 << 64
_NUMBERED_DOCUMENT: Final = re.compile(r"(?:document|article|passage) [0-9]+")
"""Names of documents that only count: in another file, the same name means another document."""
SHOWN_NOTES: Final = (
    "also_in_train",
    "contradicting",
    "repeated_id",
    "questions_without_window",
    "words_without_tokens",
    "targets_cut",
    "answers_without_source",
)
"""Notes of a split that the report of the stage shows."""


def split_files(
    files: Sequence[SourceFile], reader: TaskReader | type[TaskReader]
) -> tuple[dict[str, SourceFile], tuple[SourceFile, ...]]:
    """Return the files of a task by split, and the other files.

    The split is `dev` for dev.tsv, in_domain_dev.tsv, dev-v1.1.json, validation.parquet, or an
    input with `source: dev`. If the reader `has_parts`, the first part of a split stands for all,
    and files that describe tables are skipped. If it reads `in_folders`, a split is a folder of
    folders, which its first text file stands for: `train/pos/0_9.txt`. `split_names` of the reader
    are the splits of further file names. If two files of a folder match one split, the shorter name
    wins: GLUE's folders hold `train.tsv` and the files it was made from.

    Raises:
        ConfigurationError: no file is a split, two files are the same split, or a label is not the
            name of a split.
    """
    splits: dict[str, SourceFile] = {}
    others: list[SourceFile] = []
    candidates = [file for file in files if not reader.has_parts or _is_first_part(file.path.name)]

    if reader.in_folders:
        descending = sorted(candidates, key=lambda file: file.source, reverse=True)
        first = {_folder_of(file): file for file in descending}
        candidates = [
            file
            for file in candidates
            if (folder := _folder_of(file)) is None or first[folder] is file
        ]

    for file in sorted(candidates, key=lambda file: (len(file.path.name), file.source)):
        split = _split_of(file, reader)
        if split is None:
            others.append(file)
        elif split not in splits:
            splits[split] = file
        elif (
            len(splits[split].path.name) < len(file.path.name) and file.entry is splits[split].entry
        ):
            others.append(file)
        else:
            raise ConfigurationError(
                f"tasks: {splits[split].path} and {file.path} are both the split '{split}': name "
                f"one file for each split, input='[{{path: FILE, source: {split}}}, ...]'"
            )

    if not splits:
        names = ", ".join(str(file.path) for file in others[:5])
        raise ConfigurationError(
            f"tasks: expected files named train, dev or test (train.tsv), got {names or 'none'}; "
            "assign them by input='[{path: FILE, source: train}, {path: FILE, source: dev}]'; to "
            "take dev from a single file: input='[{path: FILE, source: train}]' "
            "tasks.split_off='{dev: 0.2}'"
            + (
                ", or name folders train, dev and test, with folders of .txt files in them"
                if reader.in_folders
                else ""
            )
        )

    return dict(sorted(splits.items())), tuple(others)


def _folder_of(file: SourceFile) -> PurePosixPath | None:
    """Return the folder of a split of text files: `train` of `train/pos/0_9.txt`."""
    path = PurePosixPath(file.source)
    folder = path.parent.parent
    is_named = bool(folder.name) and file.entry.source != _DEFAULT_LABEL
    is_split = is_named or _SPLIT_FILE_NAME.fullmatch(folder.name.replace("-", "_"))
    return folder if path.suffix == ".txt" and is_split else None


def _split_of(file: SourceFile, reader: TaskReader | type[TaskReader]) -> str | None:
    if file.entry.source != _DEFAULT_LABEL:
        if not _SPLIT_LABEL.fullmatch(file.entry.source):
            raise ConfigurationError(
                f"tasks: input {file.path}: source: expected the name of a split "
                f"({', '.join(_SPLITS)}, or one like dev_matched or test_de), got "
                f"{file.entry.source!r}"
            )
        return file.entry.source

    path = PurePosixPath(file.source)
    part = PART.fullmatch(path.name)
    if part is None:
        name = path.name.partition(".")[0]
    else:
        name = path.parent.name if part["name"] == "data" else part["name"]

    if reader.in_folders and (folder := _folder_of(file)) is not None:
        name = folder.name
    if name in reader.split_names:
        return reader.split_names[name]
    match = _SPLIT_FILE_NAME.fullmatch(name.replace("-", "_"))
    return _DEV_SYNONYM.sub("dev", match[1]) if match else None


def _is_first_part(name: str) -> bool:
    """Return whether a file holds rows of a split, and is its first part or the only one."""
    part = PART.fullmatch(name)
    return name not in _DESCRIPTION_FILES and (part is None or int(part["part"]) == 0)


def split_by_group(
    items: Sequence[TaskItem | Rejected], shares: Mapping[str, float], default: str, seed: int
) -> list[str]:
    """Return the split of each row: one of `shares`, or else `default`.

    Rows of one document stay together. In files without document names, rows that share a text stay
    together, transitively: sentences recur in many tasks and would leak from train to test. Each
    group is assigned by a hash, so the shares are approximate, and an additional row moves only the
    rows that it connects. Rejected rows stay in `default`.
    """
    parents: dict[str, str] = {}
    keys: list[list[str]] = []

    for item in items:
        if isinstance(item, Rejected):
            keys.append([])
        elif item.group is not None:
            keys.append([f"document {item.group}"])
        else:
            keys.append([*map(_text_key, item.overlap_texts)])

    # union-find over documents and texts; the smallest key is the root of its group
    for row in keys:
        for key in row:
            first, second = sorted((_root(parents, row[0]), _root(parents, key)))
            parents[second] = first

    return [
        _draw_split(_root(parents, row[0]), shares, default, seed) if row else default
        for row in keys
    ]


def exclude_overlaps(
    items: Iterable[TaskItem | Rejected], known: Set[str]
) -> list[TaskItem | Rejected]:
    """Return the rows, after rejecting overlaps as `excluded`.

    An overlap is a row that shares a document or a text with `known` rows.
    """
    rows: list[TaskItem | Rejected] = []
    for item in items:
        is_excluded = not isinstance(item, Rejected) and not known.isdisjoint(overlap_keys(item))
        rows.append(Rejected("excluded", item.index) if is_excluded else item)
    return rows


def overlap_keys(item: TaskItem) -> list[str]:
    """Return the keys by which a row is found in another file: its texts and its named document."""
    has_name = item.group is not None and not _NUMBERED_DOCUMENT.fullmatch(item.group)
    return [*([f"document {item.group}"] if has_name else []), *map(_text_key, item.overlap_texts)]


def _text_key(text: str) -> str:
    return f"text {' '.join(text.lower().split())}"


def _root(parents: dict[str, str], key: str) -> str:
    while (above := parents.get(key, key)) != key:
        parents[key] = parents.get(above, above)
        key = above
    return key


def _draw_split(key: str, shares: Mapping[str, float], default: str, seed: int) -> str:
    draw = hash64("carve", seed, key) / _HASH_VALUES  # the name keeps the splits of earlier sets
    for name, share in shares.items():
        if draw < share:
            return name
        draw -= share
    return default


def keys_of(items: Iterable[TaskItem | Rejected]) -> set[str]:
    """Return the keys by which `check_rows` finds these rows in another split."""
    keys: set[str] = set()
    for item in items:
        if not isinstance(item, Rejected):
            keys.update(overlap_keys(item))
    return keys


def check_rows(items: Sequence[TaskItem | Rejected], training: Set[str] | None) -> dict[str, int]:
    """Return the number of rows with each flaw; flaws that no row has count 0.

    - `also_in_train`: the row shares a document or a text with a training row (`tasks.disjoint`
      rejects it).
    - `contradicting`: the split has the same text with another label.
    - `repeated_id`: the question has the id of an earlier one.

    `training` has the `keys_of` the training rows; None for a training split.
    """
    rows = [item for item in items if not isinstance(item, Rejected)]
    if not rows:
        return {}
    flaws = {}
    if training is not None:
        flaws["also_in_train"] = sum(not training.isdisjoint(overlap_keys(item)) for item in rows)

    labels: dict[Hashable, Counter[Hashable]] = defaultdict(Counter)

    for item in rows:
        match item:  # rows with a single correct label
            case LabeledText():
                labels[tuple(" ".join(text.split()) for text in item.texts)][
                    item.label, item.target, item.classes
                ] += 1
            case TaggedWords():
                labels[item.words][item.tags] += 1
            case Choices():
                labels[item.context, item.choices][item.right] += 1

    if labels:
        flaws["contradicting"] = sum(
            counts.total() for counts in labels.values() if len(counts) > 1
        )

    ids = [item.key for item in rows if isinstance(item, Question)]
    if ids:
        flaws["repeated_id"] = len(ids) - len(set(ids))
    return flaws
