"""Write the documents of a stage for other programs.

    clozeline export-documents mine/data output=clean.jsonl
    clozeline export-documents mine/data/dedup output=clean

OUT is the output of a pipeline, whose last stage is taken, or the folder of a stage. An output that
ends in `.jsonl`, `.jsonl.zst` or `.parquet` is one file. In a folder, each file of the stage
becomes one of lines of JSON, compressed with zstandard, or of Parquet (`format=parquet`). Columns
keep their names; in JSON the uid and the content hash are hexadecimal, dates ISO 8601, and keys
sorted. With `exported: true` next to the path of the input, the pipeline reads the export again:
text can leave it, be changed by other programs, and come back with its uid.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import pyarrow as pa
from pyarrow import parquet

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class
from clozeline.errors import plural
from clozeline.files import publish
from clozeline.pipeline.execution.stages import last_documents
from clozeline.pipeline.ingest.documents.files import document_files, read_batches
from clozeline.pipeline.ingest.documents.json_lines import JSON_LINES_SUFFIX, open_json_lines
from clozeline.pipeline.ingest.documents.schema import DOCUMENT_SCHEMA
from clozeline.recorded_file import RecordedFile
from clozeline.tools.command import OutputPath, UserPath, run_as_script, run_tool
from clozeline.tools.output_folder import new_folder

_ZSTD_LEVEL: Final = 3
"""Compression level of zstandard."""


@config_class
class ExportDocumentsOptions:
    """Folder and format of the export."""

    stage: Annotated[UserPath, Positional(0)]
    """output of a pipeline, whose last stage is taken, or folder of a stage"""
    output: OutputPath
    """new folder, or one file that ends in .jsonl, .jsonl.zst or .parquet"""
    format: Literal["jsonl", "parquet"] = "jsonl"
    """lines of JSON (`*.jsonl.zst`), or Parquet"""


def _write_lines(batches: Iterable[pa.RecordBatch], target: Path, *, is_packed: bool = True) -> int:
    rows = 0

    with open_json_lines(target, is_packed=is_packed) as write:
        for batch in batches:
            for row in batch.to_pylist():
                write(_plain(row))
            rows += batch.num_rows

    return rows


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with hexadecimal hashes and ISO dates, without empty fields.

    `extra` is an object.
    """
    hashes = {name: row[name].hex() for name in ("uid", "content_hash")}
    date = {"date": row["date"].isoformat()} if row["date"] else {}
    return (
        {name: value for name, value in row.items() if value is not None}
        | hashes
        | date
        | {"extra": json.loads(row["extra"])}
    )


def _write_parquet(batches: Iterable[pa.RecordBatch], target: Path) -> int:
    # dictionaries of the batches grow over the file, so they become plain strings, which Parquet
    # encodes again
    schema = pa.schema(
        [
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
            for field in DOCUMENT_SCHEMA
        ]
    )

    rows = 0

    with parquet.ParquetWriter(
        target, schema, compression="zstd", compression_level=_ZSTD_LEVEL
    ) as writer:
        for batch in batches:
            columns = [
                column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)
            ]
            writer.write_table(pa.table(columns, schema=schema))
            rows += batch.num_rows

    return rows


_WRITERS: Final[dict[str, Callable[[Iterable[pa.RecordBatch], Path], int]]] = {
    ".jsonl": partial(_write_lines, is_packed=False),
    JSON_LINES_SUFFIX: _write_lines,
    ".parquet": _write_parquet,
}
"""Writers by the ending of the file."""


def export_documents(options: ExportDocumentsOptions) -> tuple[int, int]:
    """Write all files of a stage's documents; return the numbers of documents and files.

    Raises:
        ConfigurationError: if the folder has no documents.
    """
    folder = options.stage
    if (folder / "documents").is_dir() or (folder / "records").is_dir():
        folder = folder / "documents"
    elif not any(folder.glob("*.arrow")):
        folder = last_documents(folder)
    files = document_files(folder)
    for suffix, write in _WRITERS.items():
        if options.output.name.endswith(suffix):
            with publish(options.output) as target:
                return write(chain.from_iterable(map(_read, files)), target), 1

    suffix = JSON_LINES_SUFFIX if options.format == "jsonl" else ".parquet"
    write = _WRITERS[suffix]
    total = 0
    with new_folder(options.output) as output:
        for file in files:
            total += write(_read(file), output / f"{file.path.stem}{suffix}")

    return total, len(files)


def _read(file: RecordedFile) -> Iterator[pa.RecordBatch]:
    return read_batches(file, tuple(DOCUMENT_SCHEMA.names))


def _export(options: ExportDocumentsOptions) -> None:
    documents, files = export_documents(options)
    sys.stdout.write(
        f"{options.output}: {plural(documents, 'document')} in {plural(files, 'file')}\n"
    )


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, ExportDocumentsOptions, _export)


if __name__ == "__main__":
    run_as_script(main)
