"""Documents and rejections between stages: Arrow files whose bytes depend on their rows alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from clozeline.errors import IntegrityError
from clozeline.pipeline.ingest.documents.document import DOCUMENT_SCHEMA, Document
from clozeline.recorded_file import RecordedFile, find_file
from clozeline.repair import repair_of
from clozeline.seeding import fraction

_BATCH_ROWS: Final = 512
_BATCH_CHARACTERS: Final = 8 * 2**20
_DETAIL_CHARACTERS: Final = 200
_SAMPLE_CHARACTERS: Final = 2000
_WORDS: Final = pa.dictionary(pa.int32(), pa.utf8())

REJECT_SCHEMA: Final = pa.schema(
    [
        pa.field("uid", pa.binary(16), nullable=False),
        pa.field("source", _WORDS, nullable=False),
        pa.field("offset", pa.uint64(), nullable=False),
        pa.field("length", pa.uint64(), nullable=False),
        pa.field("stage", _WORDS, nullable=False),
        pa.field("reason", _WORDS, nullable=False),
        pa.field("detail", pa.utf8(), nullable=False),
        pa.field("n_chars", pa.uint32(), nullable=False),
        pa.field("sample_text", pa.utf8()),
    ]
)
"""Columns of `<stage>/rejects/<unit:06d>.arrow`."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """One document left out, and why. `reason` is a name that reports count by; `detail` says more."""

    uid: bytes
    source: str
    offset: int
    length: int
    stage: str
    reason: str
    detail: str = ""
    n_chars: int = 0
    sample_text: str | None = None

    @staticmethod
    def of(
        document: Document, *, stage: str, reason: str, detail: str = "", keep_text: float = 0.01, seed: int = 0
    ) -> Rejection:
        """Return the rejection of a document; a share `keep_text`, chosen by uid, keeps the first characters."""
        shown = fraction(document.uid, "rejects", seed) < keep_text
        return Rejection(
            uid=document.uid,
            source=document.source,
            offset=document.offset,
            length=document.length,
            stage=stage,
            reason=reason,
            detail=detail[:_DETAIL_CHARACTERS],
            n_chars=len(document.text),
            sample_text=document.text[:_SAMPLE_CHARACTERS] if shown else None,
        )


def write_documents(path: Path, documents: Iterable[Document]) -> int:
    """Write documents in their order and return their number; equal documents give equal bytes."""
    return _write(path, DOCUMENT_SCHEMA, (document.as_row() for document in documents), "text")


def write_rejects(path: Path, rows: Iterable[Rejection]) -> int:
    """Write rejections in their order and return their number."""
    names = REJECT_SCHEMA.names
    return _write(path, REJECT_SCHEMA, ({name: getattr(row, name) for name in names} for row in rows), "detail")


def documents_of(folder: Path, unit: int) -> RecordedFile:
    """Return the documents that a unit of the stage with this folder wrote."""
    return find_file(folder, f"{unit:06d}", f"documents/{unit:06d}.arrow")


def read_documents(file: Path | RecordedFile) -> Iterator[Document]:
    """Yield the documents of a file, in order.

    Raises:
        StorageError: the file is missing or cannot be read.
        IntegrityError: it is not an Arrow file of documents, or not what its record says.
    """
    for row in _read(file, DOCUMENT_SCHEMA):
        row["extra"] = {} if row["extra"] == "{}" else json.loads(row["extra"])
        yield Document(**row)


def read_rejects(file: Path | RecordedFile) -> Iterator[Rejection]:
    """Return the rejections of a file, in order."""
    return (Rejection(**row) for row in _read(file, REJECT_SCHEMA))


def read_batches(file: Path | RecordedFile, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a documents file with the named columns only; the others are not decompressed.

    Raises:
        StorageError: the file is missing.
        IntegrityError: it is not an Arrow file, or not what its record says.
    """
    one = _recorded(file)
    fields = sorted({DOCUMENT_SCHEMA.get_field_index(name) for name in columns})
    options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
    try:
        with pa.ipc.open_file(one.buffer(), options=options) as reader:
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)
    except (pa.ArrowException, OSError) as error:
        raise IntegrityError(f"{one.path}: not an Arrow file of documents ({error}); {repair_of(one.path)}") from error


def _recorded(file: Path | RecordedFile) -> RecordedFile:
    return file if isinstance(file, RecordedFile) else RecordedFile(file)


def _write(path: Path, schema: pa.Schema, rows: Iterable[dict[str, Any]], text: str) -> int:
    # One dictionary a column grows over the file: an Arrow file may add entries, but never replace them; adding to an
    # empty dictionary counts as replacing it, hence the entry "" that every one begins with.
    known: dict[str, dict[str, int]] = {field.name: {"": 0} for field in schema if field.type == _WORDS}
    codec = pa.Codec("zstd", compression_level=3)
    options = pa.ipc.IpcWriteOptions(compression=codec, emit_dictionary_deltas=True, use_threads=False)
    count = 0
    with path.open("wb") as file, pa.ipc.new_file(file, schema, options=options) as writer:
        for batch in _batches(rows, text):
            written = _record_batch(schema, batch, known)
            writer.write_batch(written)
            count += written.num_rows
    return count


def _batches(rows: Iterable[dict[str, Any]], text: str) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    characters = 0
    for row in rows:
        if batch and (len(batch) == _BATCH_ROWS or characters + len(row[text]) > _BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(row)
        characters += len(row[text])
    if batch:
        yield batch


def _record_batch(
    schema: pa.Schema, rows: Sequence[Mapping[str, Any]], known: dict[str, dict[str, int]]
) -> pa.RecordBatch:
    columns = [_column(field, [row[field.name] for row in rows], known) for field in schema]
    return pa.record_batch(columns, schema=schema)


def _column(field: pa.Field, values: Sequence[Any], known: dict[str, dict[str, int]]) -> pa.Array:
    if field.name not in known:
        return pa.array(values, type=field.type)
    entries = known[field.name]
    codes = [None if value is None else entries.setdefault(value, len(entries)) for value in values]
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(list(entries), pa.utf8()))


def _read(file: Path | RecordedFile, schema: pa.Schema) -> Iterator[dict[str, Any]]:
    one = _recorded(file)
    try:
        with pa.ipc.open_file(one.buffer()) as reader:
            if reader.schema != schema:
                raise IntegrityError(f"{one.path}: expected the columns {schema.names}, got {reader.schema.names}")
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                yield from _rows(batch)
    except (pa.ArrowException, OSError) as error:
        raise IntegrityError(f"{one.path}: not an Arrow file written by a stage ({error})") from error


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    columns = []
    for column in batch.columns:
        plain = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        columns.append(plain.to_pylist())
    for values in zip(*columns, strict=True):
        yield dict(zip(batch.schema.names, values, strict=True))
