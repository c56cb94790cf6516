"""Read and write the Arrow files of documents and rejections between stages.

Equal rows give equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.schema import DICTIONARY_TYPE, DOCUMENT_SCHEMA, row_schema
from clozeline.recorded_file import RecordedFile, find_file
from clozeline.repair import rebuild_hint
from clozeline.seeding import fraction

Item = TypeVar("Item")

DOCUMENTS_FOLDER: Final = "documents/"
"""Folder of the documents, in a stage's folder."""
_BATCH_ROWS: Final = 512
_BATCH_CHARACTERS: Final = 8 * 2**20
_DETAIL_CHARACTERS: Final = 200
_SAMPLE_CHARACTERS: Final = 2000

REJECT_SCHEMA: Final = row_schema(
    {
        "uid": pa.binary(16),
        "source": DICTIONARY_TYPE,
        "offset": pa.uint64(),
        "length": pa.uint64(),
        "stage": DICTIONARY_TYPE,
        "reason": DICTIONARY_TYPE,
        "detail": pa.utf8(),
        "n_chars": pa.uint32(),
        "url": pa.utf8(),
        "id": pa.utf8(),
        "sample_text": pa.utf8(),
    },
    "url",
    "id",
    "sample_text",
)
"""Columns of `<stage>/rejects/<part>.arrow`."""


READ_STAGE: Final = "read"
"""`stage` of a rejection that is a malformed record, without a document."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejected document, or a malformed record.

    Reports count by `reason`; `detail` explains it.
    """

    uid: bytes
    source: str
    offset: int
    length: int
    stage: str
    reason: str
    detail: str = ""
    n_chars: int = 0
    url: str | None = None
    id: str | None = None
    sample_text: str | None = None

    @staticmethod
    def from_record(source: str, offset: int, reason: str, detail: str) -> Rejection:
        """Return the rejection of a malformed record, whose uid is all zeros."""
        return Rejection(
            bytes(16), source, offset, 0, READ_STAGE, reason, detail[:_DETAIL_CHARACTERS]
        )

    @staticmethod
    def from_document(
        document: Document,
        stage: str,
        reason: str,
        detail: str = "",
        keep_text: float = 0.01,
        seed: int = 0,
    ) -> Rejection:
        """Return the rejection of a document.

        A share `keep_text` of them, chosen by uid, also stores the start of the text.
        """
        shown = fraction(document.uid, "rejects", seed) < keep_text
        sample = document.text[:_SAMPLE_CHARACTERS] if shown else None
        return Rejection(
            document.uid,
            document.source,
            document.offset,
            document.length,
            stage,
            reason,
            detail[:_DETAIL_CHARACTERS],
            len(document.text),
            document.url,
            document.record_id,
            sample,
        )


def write_documents(path: Path, documents: Iterable[Document]) -> int:
    """Write documents in this order and return their number."""
    return _write_rows(path, DOCUMENT_SCHEMA, (document.as_row() for document in documents), "text")


def write_rejects(path: Path, rows: Iterable[Rejection]) -> int:
    """Write rejections in this order and return their number."""
    return _write_rows(path, REJECT_SCHEMA, map(asdict, rows), "detail")


def documents_name(part: str) -> str:
    """Return the name of a part's documents, relative to the folder of the stage."""
    return f"{DOCUMENTS_FOLDER}{part}.arrow"


def rejects_name(part: str) -> str:
    """Return the name of a part's rejections, relative to the folder of the stage."""
    return f"rejects/{part}.arrow"


def read_documents(file: Path | RecordedFile) -> Iterator[Document]:
    """Yield the documents of a file, in order."""
    for row in _read_rows(file, DOCUMENT_SCHEMA):
        yield Document(**{**row, "extra": json.loads(row["extra"])})


def document_files(folder: Path) -> list[RecordedFile]:
    """Return the files of a stage's folder `documents`, in order.

    A file that only its record lists is an error when it is read.

    Raises:
        ConfigurationError: there is none.
        IntegrityError: the stage has records, but a file has none.
    """
    stage = folder.parent
    found = (*folder.glob("*.arrow"), *(stage / "records" / "main").glob("*.json"))
    if not found:
        raise ConfigurationError(
            f"{folder}: expected documents of a stage (*.arrow), got none; give a stage such as "
            "OUT/dedup"
        )
    return [
        find_file(stage, f"main/{part}", f"{folder.name}/{part}.arrow")
        for part in sorted({path.stem for path in found})
    ]


def read_all_documents(folder: Path) -> Iterator[Document]:
    """Yield the documents of all `document_files`, in order."""
    for file in document_files(folder):
        yield from read_documents(file)


def read_rejects(file: Path | RecordedFile) -> Iterator[Rejection]:
    """Return the rejected documents of a file, in order."""
    return (rejection for rejection in read_rejections(file) if rejection.stage != READ_STAGE)


def read_rejections(file: Path | RecordedFile) -> Iterator[Rejection]:
    """Return the rejected documents and the listed malformed records of a file, in order."""
    return (Rejection(**row) for row in _read_rows(file, REJECT_SCHEMA))


def read_batches(
    file: Path | RecordedFile, columns: tuple[str, ...] = (), schema: pa.Schema = DOCUMENT_SCHEMA
) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a file of documents.

    Only the named columns are read and decompressed; no names: all columns.
    """
    file = file if isinstance(file, RecordedFile) else RecordedFile(file)
    fields = sorted({schema.get_field_index(name) for name in columns}) or None
    options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)

    try:
        with pa.ipc.open_file(file.buffer(), options=options) as reader:
            if fields is None and reader.schema != schema:
                raise IntegrityError(
                    f"{file.path}: expected the columns {schema.names}, got {reader.schema.names}"
                )
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)
    except (pa.ArrowException, OSError) as error:
        raise IntegrityError(
            f"{file.path}: not an Arrow file written by a stage ({error}); "
            f"{rebuild_hint(file.path)}"
        ) from error


def _write_rows(path: Path, schema: pa.Schema, rows: Iterable[dict[str, Any]], text: str) -> int:
    # One dictionary per column grows over the file. Arrow files may add entries but not replace
    # them; adding to an empty dictionary counts as replacing it, hence the first entry "".
    known: dict[str, dict[str, int]] = {
        field.name: {"": 0} for field in schema if field.type == DICTIONARY_TYPE
    }

    codec = pa.Codec("zstd", compression_level=3)
    options = pa.ipc.IpcWriteOptions(
        compression=codec, emit_dictionary_deltas=True, use_threads=False
    )

    count = 0

    with path.open("wb") as file, pa.ipc.new_file(file, schema, options=options) as writer:
        for rows_of_batch in split_batches(
            rows, lambda row: len(row[text]), _BATCH_ROWS, _BATCH_CHARACTERS
        ):
            batch = _make_batch(schema, rows_of_batch, known)
            writer.write_batch(batch)
            count += batch.num_rows

    return count


def _make_batch(
    schema: pa.Schema, rows: Sequence[Mapping[str, Any]], known: dict[str, dict[str, int]]
) -> pa.RecordBatch:
    columns = []

    for field in schema:
        values = [row[field.name] for row in rows]
        if (entries := known.get(field.name)) is None:
            columns.append(pa.array(values, type=field.type))
            continue
        codes = [
            None if value is None else entries.setdefault(value, len(entries)) for value in values
        ]
        names = pa.array(list(entries), pa.utf8())
        columns.append(pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), names))

    return pa.record_batch(columns, schema=schema)


def split_batches(
    items: Iterable[Item], count: Callable[[Item], int], most: int, most_characters: int
) -> Iterator[list[Item]]:
    """Yield lists of at most `most` items and, except for a longer item, `most_characters`."""
    batch: list[Item] = []
    characters = 0
    for item in items:
        size = count(item)
        if batch and (len(batch) == most or characters + size > most_characters):
            yield batch
            batch = []
            characters = 0
        batch.append(item)
        characters += size
    if batch:
        yield batch


def _read_rows(file: Path | RecordedFile, schema: pa.Schema) -> Iterator[dict[str, Any]]:
    for batch in read_batches(file, schema=schema):
        columns = [
            column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
            for column in batch.columns
        ]
        yield from pa.record_batch(columns, schema.names).to_pylist()
