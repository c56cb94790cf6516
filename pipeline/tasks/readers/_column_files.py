"""Read the rows of files with named columns: CSV, TSV, JSON lines, Parquet, and folders of Hugging Face `datasets`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from clozeline.errors import ConfigurationError
from clozeline.files import parse_json
from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import Counted, Item, RawRecord, detect
from clozeline.pipeline.ingest.readers._fields import explain_unusable
from clozeline.pipeline.ingest.readers._tables import Table, TableFile, iterate_rows
from clozeline.pipeline.ingest.readers.arrow import Arrow
from clozeline.pipeline.ingest.readers.csv import Csv
from clozeline.pipeline.ingest.readers.parquet import Parquet
from clozeline.pipeline.tasks.readers._json_lines import field_of, json_objects
from clozeline.pipeline.tasks.readers._tables import table_rows
from clozeline.pipeline.tasks.readers._task_items import Rejected, keep_texts
from clozeline.pipeline.tasks.readers._text_lines import text_lines

Row: TypeAlias = Mapping[str, Any]

PART: Final = re.compile(r"(?P<name>.+)-(?P<part>[0-9]{5})-of-(?P<parts>[0-9]{5})(?P<suffix>\..+)")
"""Name of one of the parts in which `datasets` saves a split: `train-00000-of-00002.parquet`."""
_TABLES: Final[Mapping[str, type[TableFile]]] = {"parquet": Parquet, "arrow": Arrow}
_FORMATS: Final = "CSV, TSV, JSON lines, Parquet, or Arrow as `datasets` saves it"


@dataclass(frozen=True)
class ColumnFile:
    """A file with named columns, or all parts of one."""

    paths: tuple[Path, ...]
    format: str
    """csv, tsv, jsonl, parquet or arrow"""
    names: tuple[str, ...]
    """columns; of JSON lines the fields of the first row"""
    delimiter: str = ","
    columns: tuple[str, ...] = ()
    """columns of a file without a header"""
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """class names in order, by column, as `datasets` stores them (ClassLabel)"""

    def require(self, *names: str) -> None:
        """Raise ConfigurationError if a column is missing; a dotted path is looked up in every row."""
        missing = [name for name in names if name not in self.names and name.partition(".")[0] not in self.names]
        if missing:
            header = "" if self.format == "jsonl" else "; columns=[...] are those of a file without header"
            raise ConfigurationError(
                f"{self.paths[0]}: expected the columns {', '.join(names)}, got {', '.join(self.names)[:200]} without "
                f"{', '.join(missing)}: name the columns of this file, such as text=COLUMN{header}"
            )


class _CsvRows(Csv):
    """Rows of a CSV file with all their fields, in `extra`."""

    def _make_item(self, row: list[str] | None, names: list[str], lines: Any) -> Item:
        if lines.problem or not row:
            return super()._make_item(row, names, lines)
        if why := explain_unusable(names[0] if names else "", names):
            return Counted("malformed", "schema", lacks=why)
        if len(row) != len(names):
            detail = f"it has {len(row)} fields instead of {len(names)}"
            return Counted("malformed", "fields", lacks="\n".join(row), detail=detail)
        return RawRecord(lines.offset, "csv", lines.length, "", extra=dict(zip(names, row, strict=True)))


def parts_of(path: Path) -> tuple[Path, ...]:
    """Return all parts of a file, in order; ConfigurationError if one is missing.

    Example:
        `train-00000-of-00002.parquet` has `train-00001-of-00002.parquet` next to it.
    """
    if (match := PART.fullmatch(path.name)) is None:
        return (path,)
    count = int(match["parts"])
    names = [f"{match['name']}-{part:05}-of-{count:05}{match['suffix']}" for part in range(count)]
    if missing := [name for name in names if not path.with_name(name).is_file()]:
        raise ConfigurationError(
            f"{path}: expected {count} parts in the same folder, {missing[0]} is missing: copy it there"
        )
    return tuple(path.with_name(name) for name in names)


def open_columns(
    path: Path, limits: Limits, delimiter: str | None = None, columns: Sequence[str] | None = None
) -> ColumnFile:
    """Detect the format and the columns of a file; ConfigurationError if it has none.

    `delimiter` None: a comma in CSV files, where quotes enclose fields, and a tab in TSV files, where quotes have no
    meaning; any other value is that of a file with quotes. `columns` are those of a CSV or TSV file without a header.
    """
    paths = parts_of(path)
    format_ = _detect_format(path, limits, delimiter)
    file = ColumnFile(paths, format_, (), delimiter or ",", tuple(columns or ()))
    if format_ in _TABLES:
        with _open_table(paths[0], format_, limits) as (schema, _):
            if why := explain_unusable(schema.names[0] if schema.names else "", schema.names):
                raise ConfigurationError(f"{path}: {why}")
            return ColumnFile(paths, format_, tuple(schema.names), class_names=_class_names(path, schema))
    damaged = ""
    for index, row in column_rows(file, limits):
        if not isinstance(row, Rejected):
            return ColumnFile(paths, format_, tuple(row), file.delimiter, file.columns)
        damaged = damaged or f"row {index + 1}: {row.detail or row.reason.replace('_', ' ')}"
    found = f"none that can be read ({damaged or 'it is empty'})"
    raise ConfigurationError(f"{path}: expected rows of {_FORMATS}, got {found}")


def column_rows(file: ColumnFile, limits: Limits) -> Iterator[tuple[int, Row | Rejected]]:
    """Yield the index and the fields of each row, over all parts; damaged rows are rejected with a reason."""
    first = 0
    for path in file.paths:
        index = -1
        for index, row in enumerate(_rows_of(path, file, limits)):
            at = first + index
            yield at, replace(row, index=at) if isinstance(row, Rejected) else row
        first += index + 1


def value_at(row: Row, name: str) -> Any:
    """Return the value of a column, or at a dotted path of nested fields; None if it is absent."""
    return row[name] if name in row else field_of(row, name)


def _detect_format(path: Path, limits: Limits, delimiter: str | None) -> str:
    name, _ = detect(path)
    if name in _TABLES:
        return name
    _, first = next(text_lines(path, limits), (0, ""))
    if isinstance(first, str) and first.lstrip().startswith("{"):
        return "jsonl"
    if delimiter is not None:
        return "csv"
    if name in ("csv", "tsv", "jsonl"):
        return name
    raise ConfigurationError(
        f"{path}: expected {_FORMATS}, got {name}: rename it to end in .csv, .tsv or .jsonl, or give its delimiter: "
        "tasks.reader.delimiter=';'"
    )


def _rows_of(path: Path, file: ColumnFile, limits: Limits) -> Iterator[Row | Rejected]:
    """Yield the rows of one part."""
    if file.format == "jsonl":
        yield from (row for _, row in json_objects(path, limits))
    elif file.format == "tsv":
        yield from _tsv_rows(path, file, limits)
    elif file.format == "csv":
        yield from _csv_rows(path, file, limits)
    else:
        with _open_table(path, file.format, limits) as (_, parts):
            for part in parts:
                for batch in part.batches():
                    for row in iterate_rows(batch):
                        yield Rejected("bad_utf8", 0) if row is None else row


def _csv_rows(path: Path, file: ColumnFile, limits: Limits) -> Iterator[Row | Rejected]:
    reader = _CsvRows(Csv.Options(delimiter=file.delimiter, columns=list(file.columns) or None), limits)
    for item in reader.read(path, 0, path.stat().st_size, Account()):
        if isinstance(item, RawRecord):
            yield item.extra
        elif item.reason == "schema":
            raise ConfigurationError(f"{path}: {item.lacks}")
        elif item.group == "malformed":
            yield keep_texts(Rejected(item.reason, 0, item.detail), item.lacks)


def _tsv_rows(path: Path, file: ColumnFile, limits: Limits) -> Iterator[Row | Rejected]:
    names = list(file.columns)
    for _, cells in table_rows(path, limits):
        if not names:
            if isinstance(cells, Rejected):
                raise ConfigurationError(f"{path}: the header cannot be read ({cells.reason})")
            names = cells
            if why := explain_unusable(names[0], names):
                raise ConfigurationError(f"{path}: {why}")
        elif isinstance(cells, Rejected):
            yield cells
        elif len(cells) != len(names):
            yield Rejected("fields", 0, f"it has {len(cells)} fields instead of {len(names)}", (*cells,))
        else:
            yield dict(zip(names, cells, strict=True))


@contextmanager
def _open_table(path: Path, format_: str, limits: Limits) -> Iterator[Table]:
    """Open a table; ConfigurationError where it is damaged, as labels of a part of the rows are no data set."""
    kind = _TABLES[format_]
    try:
        with kind(kind.Options(), limits).table(path) as table:
            yield table
    except (pa.ArrowException, OSError) as error:
        raise ConfigurationError(f"{path}: is damaged ({error}): copy the file again") from error


def _class_names(path: Path, schema: pa.Schema) -> dict[str, tuple[str, ...]]:
    """Return the class names of columns, from the metadata of the file or the dataset_info.json next to it."""
    info = path.with_name("dataset_info.json")
    if stored := (schema.metadata or {}).get(b"huggingface"):
        features = parse_json(stored).get("info", {}).get("features", {})
    elif info.is_file():
        features = parse_json(info.read_bytes()).get("features", {})
    else:
        return {}
    found = {}
    for name, feature in (features or {}).items():
        inner = feature
        while isinstance(inner, list) or (isinstance(inner, Mapping) and "feature" in inner):
            inner = inner[0] if isinstance(inner, list) else inner["feature"]
        if isinstance(inner, Mapping) and inner.get("_type") == "ClassLabel" and inner.get("names"):
            found[name] = tuple(inner["names"])
    return found
