"""CPU time of reading rows of Parquet, Arrow and JSON lines as records: ours against datatrove's readers, in turns.

    python -m benchmarks.table_rows [--rows 10000] [--rounds 5] [--json FILE]

Texts are those that come with Python. Files have the text alone, or also a URL, a date, a score and a count, as
published corpora do. Both sides must find the same texts and the same other fields. Figures are CPU microseconds per
row; the ratio is the median of the rounds. datatrove reads JSON lines only if `orjson` is installed.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import figure, parser, print_figures, system_load, take_turns, write_json

import pyarrow as pa
import pyarrow.parquet
from datatrove.pipeline.readers import IpcReader, JsonlReader, ParquetReader
from loguru import logger

from benchmarks.filters import natural_texts
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import RawRecord
from clozeline.registry import choose

TARGET = 1.0
_BATCH = 1000
_READERS: dict[str, Any] = {"parquet": ParquetReader, "arrow": IpcReader, "jsonl": JsonlReader}
Row = tuple[str, str | None, dict[str, Any]]
"""Text, URL and other fields."""


def make_table(rows: int, columns: int) -> pa.Table:
    """Return rows of natural texts and up to four other columns."""
    fields = {
        "text": list(islice(cycle(natural_texts()), rows)),
        "url": [f"https://example.org/pages/{row}.html" for row in range(rows)],
        "date": [f"2026-01-{row % 28 + 1:02d}T10:20:30Z" for row in range(rows)],
        "score": [1 / (row + 1) for row in range(rows)],
        "token_count": list(range(rows)),
    }
    return pa.table(dict(islice(fields.items(), columns)))


def write(table: pa.Table, folder: Path, kind: str) -> Path:
    """Write the table as the only file of a folder, and return the file."""
    folder.mkdir()
    path = folder / f"table.{kind}"
    if kind == "parquet":
        pa.parquet.write_table(table, path)
    elif kind == "arrow":
        with pa.ipc.new_file(str(path), table.schema) as file:
            file.write_table(table, max_chunksize=_BATCH)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()), encoding="utf-8")
    return path


def read_ours(path: Path) -> Iterator[RawRecord]:
    """Yield our records of a file."""
    reader = choose("clozeline.pipeline.ingest.readers", path.suffix[1:]).build(Limits())
    for item in reader.read(path, 0, path.stat().st_size):
        if isinstance(item, RawRecord):
            yield item


def read_theirs(path: Path) -> Iterator[Any]:
    """Yield the documents that datatrove's reader of a folder gives."""
    documents: Iterator[Any] = _READERS[path.suffix[1:]](str(path.parent)).run()
    return documents


def our_row(record: RawRecord) -> Row:
    return record.text, record.url, dict(record.extra)


def their_row(document: Any) -> Row:
    others = {name: value for name, value in document.metadata.items() if name != "file_path"}
    return document.text, others.pop("url", None), others


def drain(read: Callable[[Path], Iterator[Any]], path: Path) -> None:
    for _ in read(path):
        pass


def compare(path: Path, rows: int, columns: int, rounds: int) -> dict[str, Any]:
    """Return the figures of one file, without a peer if its reader lacks a package."""
    works = {"ours": lambda: drain(read_ours, path), "theirs": lambda: drain(read_theirs, path)}
    case = f"{path.suffix[1:]}, {columns} {'column' if columns == 1 else 'columns'}"
    try:
        their_rows = list(map(their_row, read_theirs(path)))
    except ImportError as error:
        print(f"{case}: no peer: {error}")
        (ours,) = take_turns({"ours": works["ours"]}, rounds).values()
        return figure(case, "us/row", median(ours) / rows * 1e6, None, "", None, holds=True)
    if list(map(our_row, read_ours(path))) != their_rows:
        raise SystemExit(f"{case}: the rows differ")
    del their_rows
    seconds = take_turns(works, rounds)
    us_per_row = {name: median(some) / rows * 1e6 for name, some in seconds.items()}
    ratio = median(a / b for a, b in zip(seconds["ours"], seconds["theirs"], strict=True))
    row = figure(case, "us/row", *us_per_row.values(), "datatrove", TARGET, holds=ratio <= TARGET)
    return {**row, "ratio": ratio}


def main() -> None:
    options = parser(__doc__, rows=10_000, rounds=5).parse_args()
    logger.disable("datatrove")
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        for columns in (1, 5):
            table = make_table(options.rows, columns)
            for kind in _READERS:
                path = write(table, Path(folder) / f"{kind}-{columns}", kind)
                figures.append(compare(path, options.rows, columns, options.rounds))
    print_figures(figures, ("rows", "ours", "datatrove", "ratio", "at most", "holds"), "CPU microseconds per row")
    print(f"\n{table['text'].nbytes / options.rows / 1e3:.1f} kB of text per row; {system_load()}")
    write_json(options.json, figures)


if __name__ == "__main__":
    main()
