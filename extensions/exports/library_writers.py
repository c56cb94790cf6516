"""Write rows in the formats of libraries that are light to install, by their writers."""

import importlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.extensions.exports.exported_rows import ExportedRows
from clozeline.pipeline.rows import ShardRow
from clozeline.pipeline.shards import Manifest


def _import_writer(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ConfigurationError(
            f"this format is written by {package} ({error}): pip install {package}"
        ) from error


def write_parquet(rows: ExportedRows, folder: Path) -> None:
    """Write Parquet files with the columns and types of the set, one row group each."""
    for number, batch in enumerate(rows.batches()):
        path = folder / f"rows-{number:05d}-of-{rows.file_count:05d}.parquet"
        parquet.write_table(pa.Table.from_batches([batch]), path, compression="zstd")


def write_datasets(rows: ExportedRows, folder: Path) -> None:
    """Write all rows to one temporary Arrow file.

    `datasets` maps it into memory, and saves it in its format.
    """
    datasets = _import_writer("datasets")
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        path = str(Path(temporary) / "rows.arrow")
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, rows.schema) as writer:
            for batch in rows.batches():
                writer.write_batch(batch)
        datasets.Dataset.from_file(path).save_to_disk(str(folder), num_shards=rows.file_count)


def write_litdata(rows: ExportedRows, folder: Path) -> None:
    """Write a dictionary of one-dimensional arrays for each row.

    A fixed column is an array of one value.

    LitData has no type for numbers that holds every uid.
    """
    writer = _import_writer("litdata.streaming.writer").BinaryWriter(
        str(folder), chunk_size=rows.file_rows
    )
    for index, row in enumerate(row for part in rows.files() for row in part):
        writer[index] = {
            name: np.atleast_1d(value) for name, value in (*row.fixed.items(), *row.columns.items())
        }
    writer.done()
    writer.merge()


def write_webdataset(rows: ExportedRows, folder: Path) -> None:
    """Write a sample for each row: `npy` for its list columns, `json` for the others.

    The key is the uid and the variant; in a token set, the uid of the document.

    Raises:
        IntegrityError: consecutive rows have the same key, and readers would join them to one
            sample.
    """
    webdataset = _import_writer("webdataset")
    previous_key = ""

    for number, part in enumerate(rows.files()):
        path = folder / f"samples-{number:05d}-of-{rows.file_count:05d}.tar"
        with path.open("wb") as file, webdataset.TarWriter(file, mtime=0) as writer:
            for row in part:
                source = _describe_source(row, rows.shards.manifest)
                key = (
                    f"{source['uid']}-{source['variant']}"
                    if "uid" in source
                    else source["document_uid"]
                )
                if key == previous_key:
                    where = rows.shards.path
                    raise IntegrityError(
                        f"{where}: two consecutive rows have the key {key}: run clozeline "
                        "validate-shards"
                    )

                arrays = {f"{name}.npy": values for name, values in row.columns.items()}
                writer.write({"__key__": key, "json": source, **arrays})
                previous_key = key


def _describe_source(row: ShardRow, manifest: Manifest) -> dict[str, Any]:
    """Return the fixed columns with readable values.

    Uids are hexadecimal, languages and source groups have names.
    """
    source: dict[str, Any] = {
        name: value.item() for name, value in row.fixed.items() if name != "document_uid"
    }
    source["document_uid"] = row.fixed["document_uid"].tobytes().hex()
    if "uid" in source:
        source["uid"] = f"{source['uid']:016x}"
    for name, table in (("language", manifest.languages), ("source_group", manifest.source_groups)):
        if name in source and source[name] < len(table):
            source[name] = table[source[name]]
    return source
