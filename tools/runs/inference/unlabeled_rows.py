"""Read rows without answers for a fine-tuned run: columns of a table, or an official layout, as rows of the task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.documents.document import document_uid
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers._rows import value_at
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.tasks.head_rows import ROW_TYPES
from clozeline.pipeline.tasks.readers import Rejected, TaskItem, TaskReader
from clozeline.pipeline.tasks.readers._column_files import open_table
from clozeline.pipeline.tasks.task_rows import FRAMES, Form
from clozeline.registry import find
from clozeline.tools.runs.evaluation.task_run import TaskRun

if TYPE_CHECKING:
    from clozeline.train.answers._answer import TaskAnswer

Item: TypeAlias = tuple[TaskItem | Rejected, Any]
"""A row, and its id in the file, None without one."""
_CORPUS: Final = "predict"


@dataclass(frozen=True)
class InputColumns:
    """Columns with the input of a model in a file; `keys` are column names by key, such as text and text_pair."""

    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    id: str | None = None
    delimiter: str | None = None
    columns: Sequence[str] = ()


def task_reader(manifest: Manifest) -> TaskReader:
    """Return the reader whose rows a set holds."""
    options = dict(manifest.config["reader"])
    kind = find("clozeline.pipeline.tasks.readers", options.pop("name"))
    reader: TaskReader = kind(kind.Options(**options), Limits())
    return reader


def read_unlabeled(path: Path, answer: TaskAnswer, reader: TaskReader, columns: InputColumns) -> Iterator[Item]:
    """Yield every row of a file in order, as an item with an arbitrary answer or a rejection.

    Files in the official layout of the training task need no names of columns, nor do lines of text in `.txt`: one
    text a line, or those of a pair with a tab between them.
    """
    if not columns.keys and columns.id is None and (official := reader.read_unlabeled(path)) is not None:
        yield from official
        return
    names, default = columns.columns, None
    if path.suffix == ".txt" and not names:
        names, default = answer.input_keys()[0], "tsv"
    file = open_table(path, Limits(), columns.delimiter, names, default=default)
    keys = _keys_of(file.names, answer, reader, columns)
    if default is not None:
        keys = {name: [name] for name in names}
    file.require(*(name for names in keys.values() for name in names), *filter(None, [columns.id]), keys="")
    for index, row in file.rows():
        if isinstance(row, Rejected):
            yield row, None
            continue
        key = None if columns.id is None else value_at(row, columns.id)
        values = {key: [value_at(row, name) for name in names] for key, names in keys.items()}
        yield answer.item(values, reader, index, key), key


def _keys_of(
    names: Sequence[str], answer: TaskAnswer, reader: TaskReader, columns: InputColumns
) -> dict[str, Sequence[str]]:
    """Return the columns by key: as given, else from the training task, else columns of the key's name."""
    needed, optional = answer.input_keys()
    if unknown := columns.keys.keys() - {*needed, *optional}:
        raise ConfigurationError(
            f"{unknown.pop()}: the task {answer.facts.name} reads {', '.join((*needed, *optional))}: give those columns"
        )
    own = reader.input_columns(names)
    return {
        key: columns.keys.get(key) or own.get(key) or [key]
        for key in (*needed, *optional)
        if key in needed or key in columns.keys or key in own
    }


def build_rows(
    opened: TaskRun, reader: TaskReader, items: Sequence[TaskItem | Rejected]
) -> tuple[Rows, dict[bytes, int], dict[int, str]]:
    """Return the rows of the items as in training, the item of each document uid, and reasons of items without rows."""
    objective = opened.train.manifest.objective
    assert objective is not None, "a set of examples"
    frame = FRAMES[objective.options["frame"]]
    form = Form(frame, objective.options["max_length"], opened.train.manifest.config.get("stride"))
    builder = ROW_TYPES[opened.facts.head, frame.architecture](
        opened.facts, form, opened.trained.tokenizer, _CORPUS, _CORPUS
    )
    items = list(reader.complete(items, opened.trained.tokenizer))
    rows = builder.rows(items)
    uids = {document_uid(_CORPUS, _CORPUS, "row", item.index): number for number, item in enumerate(items)
            if not isinstance(item, Rejected)}  # fmt: skip
    built = {rows.fixed["document_uid"][row].tobytes() for row in range(len(rows))}
    missing = {number: "no_tokens" for uid, number in uids.items() if uid not in built}
    missing |= {number: item.reason for number, item in enumerate(items) if isinstance(item, Rejected)}
    return rows, uids, missing
