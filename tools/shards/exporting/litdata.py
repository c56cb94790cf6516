"""Write rows as chunks of LitData, by its own writer."""

from pathlib import Path

import numpy as np

from clozeline.tools.shards.exporting.exported_rows import ExportedRows, import_writer


def write_litdata(rows: ExportedRows, folder: Path) -> None:
    """Write a dictionary of one-dimensional arrays for each row; a fixed column is an array of one value.

    The writer has no number type that holds every uid.
    """
    writer = import_writer("litdata.streaming.writer").BinaryWriter(str(folder), chunk_size=rows.file_rows)
    for index, row in enumerate(row for part in rows.files() for row in part):
        writer[index] = {name: np.atleast_1d(value) for name, value in (*row.fixed.items(), *row.columns.items())}
    writer.done()
    writer.merge()
