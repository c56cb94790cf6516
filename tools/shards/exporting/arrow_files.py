"""Write rows as Parquet, or as a folder for `load_from_disk` of Hugging Face `datasets`, by pyarrow and `datasets`."""

import tempfile
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from clozeline.tools.shards.exporting.exported_rows import ExportedRows, import_writer


def write_parquet(rows: ExportedRows, folder: Path) -> None:
    """Write Parquet files with the columns and types of the set, one row group each."""
    for number, batch in enumerate(rows.batches()):
        path = folder / f"rows-{number:05d}-of-{rows.file_count:05d}.parquet"
        parquet.write_table(pa.Table.from_batches([batch]), path, compression="zstd")


def write_datasets(rows: ExportedRows, folder: Path) -> None:
    """Write all rows to one temporary Arrow file, which `datasets` maps into memory and saves as its own files."""
    datasets = import_writer("datasets")
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        path = str(Path(temporary) / "rows.arrow")
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, rows.schema) as writer:
            for batch in rows.batches():
                writer.write_batch(batch)
        datasets.Dataset.from_file(path).save_to_disk(str(folder), num_shards=rows.file_count)
