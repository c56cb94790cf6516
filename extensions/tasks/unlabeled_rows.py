"""Read rows without answers for a fine-tuned run.

Columns of a table, or an official layout, become rows of the task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.readers import TaskItem, TaskReader
from clozeline.extensions.tasks.registries import TASK_READERS
from clozeline.extensions.tasks.rows import rows_of
from clozeline.extensions.tasks.sets.task_rows import Form, TaskRows
from clozeline.extensions.tasks.task_run import TaskRun
from clozeline.pipeline.ingest.documents.document import document_uid
from clozeline.pipeline.ingest.formats.file_types import suffix_of
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers._rows import value_at
from clozeline.pipeline.ingest.readers.text import TextReader
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.tables import Rejected, RowFile, open_table

Item: TypeAlias = tuple[TaskItem | Rejected, Any]
"""A row, and the id that the file gives it; None: the file gives no id."""
_CORPUS_NAME: Final = "predict"
"""Name of corpus and source from which the uids of rows to predict are computed."""


@dataclass(frozen=True)
class InputColumns:
    """Columns with the input of a model in a file.

    `keys` are column names by key, such as text and text_pair.
    """

    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    id: str | None = None
    delimiter: str | None = None
    columns: Sequence[str] = ()

    def name_a_table(self) -> bool:
        """Return whether something is given that only tables have."""
        return bool(self.keys or self.columns or self.delimiter or self.id is not None)


def task_reader(manifest: Manifest) -> TaskReader:
    """Return the reader whose rows a set holds."""
    options = dict(manifest.config["reader"])
    reader_class = TASK_READERS.load_class(options.pop("name"))
    reader: TaskReader = reader_class(reader_class.Options(**options), InputLimits())
    reader.form = manifest.config.get("normalize", reader.form)
    return reader


def read_unlabeled(
    path: Path, builder: TaskRows[Any], reader: TaskReader, columns: InputColumns
) -> Iterator[Item]:
    """Yield every row of a file in order, as an item with an arbitrary answer or a rejection.

    The file decides how it is read, as `tasks` reads it: in an official layout of the training task
    or of its head, which needs no names of columns; as lines of text in `.txt`, one text a line, or
    those of a pair with a tab between them; else as a table.
    """
    if not columns.name_a_table():
        for official in _official_readers(builder, reader):
            official.form = reader.form
            if (items := official.read_unlabeled(path)) is not None:
                yield from items
                return

    file, keys = _open_columns(path, builder, reader, columns)
    file.require(*_names_in(keys), *filter(None, [columns.id]), keys="")

    for index, row in file.rows():
        if isinstance(row, Rejected):
            yield row, None
            continue
        key = None if columns.id is None else value_at(row, columns.id)
        values = {key: [value_at(row, name) for name in names] for key, names in keys.items()}
        yield builder.item(values, reader, index, key), key


def _open_columns(
    path: Path, builder: TaskRows[Any], reader: TaskReader, columns: InputColumns
) -> tuple[RowFile, Mapping[str, Sequence[str]]]:
    """Return a table or the lines of a text, and the columns by key.

    Without a header as the task's tables are.
    """
    if suffix_of(path.name) in TextReader.suffixes and not columns.columns:
        needed = builder.inputs[0]
        _keys_of(needed, builder, reader, columns)  # refuses columns that the task does not read
        file = open_table(path, InputLimits(), columns.delimiter, needed, default="tsv")
        return file, {name: [name] for name in needed}

    delimiter, header = reader.table_form()

    if not (columns.delimiter or columns.columns) and (delimiter or header):
        with suppress(ConfigurationError):  # values that are not names
            file = open_table(path, InputLimits())
            keys = _keys_of(file.names, builder, reader, columns)
            if {*_names_in(keys)} <= {*file.names}:
                return file, keys
        columns = replace(columns, delimiter=delimiter, columns=header)

    file = open_table(path, InputLimits(), columns.delimiter, columns.columns)
    return file, _keys_of(file.names, builder, reader, columns)


def _names_in(keys: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the names of all columns."""
    for names in keys.values():
        yield from names


def _official_readers(builder: TaskRows[Any], reader: TaskReader) -> Iterator[TaskReader]:
    """Yield the readers whose layouts are tried.

    The reader of the training task comes first, with its options, then the head's readers.
    """
    of_head = [
        reader if type(reader) is type(other) else other for other in builder.official_readers()
    ]
    if reader.metadata.head == builder.metadata.head and reader not in of_head:
        yield reader
    yield from of_head


def _keys_of(
    names: Sequence[str], builder: TaskRows[Any], reader: TaskReader, columns: InputColumns
) -> dict[str, Sequence[str]]:
    """Return the columns by key.

    They are as given, else from the training task, else columns of the key's name.
    """
    needed, optional = builder.inputs

    if unknown := columns.keys.keys() - {*needed, *optional}:
        raise ConfigurationError(
            f"{unknown.pop()}: the task {builder.metadata.name} reads "
            f"{', '.join((*needed, *optional))}: give those columns"
        )

    reader_columns = reader.input_columns(names)
    return {
        key: columns.keys.get(key) or reader_columns.get(key) or [key]
        for key in (*needed, *optional)
        if key in needed or key in columns.keys or key in reader_columns
    }


class UnlabeledRows(NamedTuple):
    """The rows of some items as in training."""

    rows: RowBatch
    numbers: dict[bytes, int]
    """number of the item of each document uid"""
    missing: dict[int, str]
    """reasons of items without rows, by number"""
    truncated: dict[int, int]
    """tokens that the model does not read, because the item is longer than its rows, by number"""


def task_rows(opened: TaskRun) -> TaskRows[Any]:
    """Return what builds rows as those that a run was trained on."""
    form = Form.of(opened.train.manifest)
    return rows_of(opened.facts.head, form.frame.architecture)(
        opened.facts, form, opened.trained.tokenizer, _CORPUS_NAME, _CORPUS_NAME
    )


def build_rows(
    builder: TaskRows[Any], reader: TaskReader, items: Sequence[TaskItem | Rejected]
) -> UnlabeledRows:
    """Return the rows of the items as in training."""
    items = list(reader.complete(items, builder.tokenizer))
    rows = builder.rows(items)
    uids = {
        document_uid(_CORPUS_NAME, _CORPUS_NAME, "row", item.index): number
        for number, item in enumerate(items)
        if not isinstance(item, Rejected)
    }

    missing = dict[int, str]()
    truncated = dict[int, int]()

    for number, item in enumerate(items):
        if isinstance(item, Rejected):
            missing[number] = item.reason
        elif item.index in builder.unbuilt:
            missing[number] = builder.unbuilt[item.index]
        elif item.index in builder.truncated_inputs:
            truncated[number] = builder.truncated_inputs[item.index]

    return UnlabeledRows(rows, uids, missing, truncated)
