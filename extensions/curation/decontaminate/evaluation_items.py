"""Read the items of evaluation files: with readers of tasks, or from text and JSON lines."""

import glob
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.extensions.curation.decontaminate.config import EvaluationSet
from clozeline.extensions.curation.registries import ItemReaderComponent
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.tables import (
    Rejected,
    RowFile,
    iterate_strings,
    open_table,
    read_text_lines,
)

_ENDINGS: Final = re.compile(r"(\.(json|jsonl|ndjson|txt|tsv|csv|gz|zst|xz|bz2|lz4))+$")
_COLUMNS: Final = ("text", "fields")
"""columns, of which one has the texts of an item"""


@dataclass(frozen=True, slots=True)
class EvaluationItem:
    """An item of an evaluation file."""

    row: int
    """index of its first line, or of its row in files without lines"""
    name: str
    """its `id`, or else its row"""
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EvaluationFile:
    """One evaluation file."""

    suite: str
    name: str
    """path below the folder, or below the last folder before a wildcard"""
    path: Path = field(compare=False)
    reader: ItemReaderComponent | None


def find_evaluation_files(sets: Sequence[EvaluationSet]) -> list[EvaluationFile]:
    """Return the files of evaluation sets, sorted by suite and name.

    Raises:
        ConfigurationError: no file matches, or two sets have the same suite.
    """
    files: list[EvaluationFile] = []
    owners: dict[str, EvaluationSet | Path] = {}

    for entry in sets:
        folder = Path(entry.path)
        if folder.is_dir():
            every_path = [path for path in sorted(folder.rglob("*")) if path.is_file()]
            paths = [path for path in every_path if not _is_hidden(path.relative_to(folder))]
            suite: str | None = entry.suite or folder.resolve().name
        else:
            exact = [folder] if folder.is_file() else []
            matching = glob.glob(entry.path, recursive=True)  # noqa: PTH207
            matches = exact or sorted(map(Path, matching))
            paths = [path for path in matches if path.is_file()]
            suite = entry.suite
            folder = Path(*takewhile(lambda part: not glob.has_magic(part), folder.parts[:-1]))

        if not paths:
            raise ConfigurationError(
                f"decontaminate.against: {entry.path}: no file matches this path: name a file, a "
                "folder with files, or a pattern"
            )

        task = "" if entry.reader is None else f"{entry.reader.build(InputLimits()).suite()}/"

        for path in paths:
            suite_name = suite or f"{task}{_ENDINGS.sub('', path.name)}"
            owner = owners.setdefault(suite_name, entry if suite else path)
            if owner is not (entry if suite else path):
                raise ConfigurationError(
                    f"decontaminate.against: two suites have the same name: '{suite_name}' for "
                    f"{path} and for {owner.path if isinstance(owner, EvaluationSet) else owner}: "
                    f"give them different names, {{path: {entry.path}, suite: NAME}}"
                )
            files.append(
                EvaluationFile(suite_name, path.relative_to(folder).as_posix(), path, entry.reader)
            )

    return sorted(files, key=lambda file: (file.suite, file.name))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def list_files(file: EvaluationFile) -> list[Path]:
    """Return the paths of an evaluation file, and of those that its reader reads with it."""
    if file.reader is None:
        return [file.path]
    return [file.path, *file.reader.build(InputLimits()).open(file.path).others]


def check_first_item(file: EvaluationFile, limits: InputLimits) -> None:
    """Raise ConfigurationError if the first item of a file cannot be read."""
    next(read_items(file, limits), None)


def read_items(file: EvaluationFile, limits: InputLimits) -> Iterator[EvaluationItem | Rejected]:
    """Yield the items of a file: all rows with a text, and the other rows as rejected.

    Rows that the reader of a task rejects are items too, if they have a text.

    Raises:
        ConfigurationError: the layout is unknown, or a line is damaged in a file without a task
            reader.
    """
    if file.reader is None:
        rows: Iterator[EvaluationItem | Rejected | None] = _read_untasked_rows(file, limits)
    else:
        reader = file.reader.build(limits)
        items = (
            (item, item.index, item.texts) if isinstance(item, Rejected) else (None, *item)
            for item in reader.item_texts(reader.open(file.path))
        )
        rows = (
            EvaluationItem(index, str(index), texts) if texts else rejected
            for rejected, index, texts in items
        )

    yield from (item for item in rows if item is not None)


def _read_untasked_rows(
    file: EvaluationFile, limits: InputLimits
) -> Iterator[EvaluationItem | None]:
    """Yield the items of a text file or a table, and None for each empty line."""
    column = ""
    is_text = ".txt" in file.path.suffixes
    for row, fields in (
        read_text_lines(file.path, limits) if is_text else _open_table(file, limits).rows()
    ):
        if isinstance(fields, Rejected) and fields.reason != "blank_line":
            raise _damage_error(file, fields)
        if isinstance(fields, Rejected | str):
            has_text = isinstance(fields, str) and fields.strip()
            yield EvaluationItem(row, str(row), (str(fields),)) if has_text else None
            continue

        column = column or next((name for name in _COLUMNS if name in fields), "")
        texts = tuple(iterate_strings(fields.get(column)))
        if not texts:
            raise _layout_error(file, f"the fields {', '.join(fields) or 'none'} in line {row + 1}")

        # files cannot hold a lone surrogate
        name = str(fields.get("id", row)).encode("utf-8", "replace").decode()
        yield EvaluationItem(row, name, texts)


def _open_table(file: EvaluationFile, limits: InputLimits) -> RowFile:
    try:
        return open_table(file.path, limits, by_line=True)
    except ConfigurationError as error:
        raise _layout_error(file, str(error)) from error


def _damage_error(file: EvaluationFile, line: Rejected) -> ConfigurationError:
    return ConfigurationError(
        f"decontaminate.against: {file.path}: line {line.index + 1}: expected an item, but "
        f"{line.explanation}: correct the line, because no item may be skipped"
    )


def _layout_error(file: EvaluationFile, got: str) -> ConfigurationError:
    return ConfigurationError(
        f"decontaminate.against: {file.path}: expected text (.txt) with one item per line, or a "
        f"table or JSON lines with {' or '.join(_COLUMNS)}; got {got}. For the files of a task, "
        f"name the reader: {{path: {file.path}, reader: {{name: squad}}}}"
    )
