"""Files with labeled rows, and the reader of them."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet

from clozeline.extensions.tasks.readers.labeled import LabeledReader
from clozeline.pipeline.ingest.formats.limits import InputLimits
from tests.extensions.tasks.readers.reading import items_of, reader_of


def completed(path, **options):
    """The reader with what the training file determines."""
    return LabeledReader(
        reader_of("labeled", **options).complete_options({"train": path}), InputLimits()
    )


def read_rows(folder, rows, **options):
    """The completed reader of rows that are written as JSON lines, and what it finds."""
    path = write_rows(folder, "jsonl", rows)
    reader = completed(path, **options)
    return reader, items_of(reader, path)


def write_rows(folder, format_, rows, name="train"):
    path = folder / f"{name}.{format_}"

    if format_ == "parquet":
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path)
    elif format_ == "jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        with path.open("w", newline="") as file:
            quoting = (
                {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "quotechar": None}
                if format_ == "tsv"
                else {}
            )

            table = csv.DictWriter(file, list(rows[0]), lineterminator="\n", **quoting)
            table.writeheader()
            table.writerows(rows)

    return path
