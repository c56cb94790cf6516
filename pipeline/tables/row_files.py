"""Read the rows of a file as named columns; the format and the columns are detected.

Every `RowReader` of `pipeline/ingest/readers` is a format: JSON lines, JSON, CSV, TSV, Parquet,
Arrow.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import pyarrow as pa

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.files import parse_json, read_object
from clozeline.pipeline.ingest.formats.decompression import DAMAGE_REASONS, explain_lost
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.reader_options import select_options
from clozeline.pipeline.ingest.readers import RawRecord, detect_reader
from clozeline.pipeline.ingest.readers._rows import RowReader, explain_duplicate_names
from clozeline.pipeline.ingest.readers._tables import TableFileReader
from clozeline.pipeline.registries import READERS
from clozeline.pipeline.tables.lines import read_text_lines
from clozeline.pipeline.tables.rejected import Rejected, attach_texts
from clozeline.pipeline.text.normal_form import NormalForm, normalize_field

Row: TypeAlias = Mapping[str, Any]

PART: Final = re.compile(r"(?P<name>.+)-(?P<part>[0-9]{5})-of-(?P<parts>[0-9]{5})(?P<suffix>\..+)")
"""Name of a part of a split saved by `datasets`: `train-00000-of-00002.parquet`."""
_NO_LABEL: Final = -1
"""Number that stands for a missing label in a column whose class names the file stores."""


@dataclass(frozen=True)
class RowFile:
    """A file with rows, compressed or not, and its detected layout."""

    path: Path
    layout: str
    """name of the layout in reports, such as `csv with columns`"""
    rows: Callable[[], Iterator[tuple[int, Row | Rejected]]]
    """start reading: yield the index of each row, with its fields or the reason why it is
    unreadable"""
    others: tuple[Path, ...] = ()
    """other files that are read for the rows, such as its other parts and dataset_info.json"""
    names: tuple[str, ...] = ()
    """names of the columns; for JSON lines, of the fields of the first row"""
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """names of the label classes of each column in the order of their numbers, as `datasets` stores
    them (ClassLabel)"""

    def require(
        self, *names: str, keys: str = "", options: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Raise ConfigurationError if a column is missing; dotted paths are checked by row.

        `options` are the options that name columns, for the message; it proposes a column whose
        name differs in its case, or the only one that is left.
        """
        if missing := [name for name in names if self._lacks(name)]:
            missing = [*dict.fromkeys([*missing, *filter(self._lacks, options)])]
            by_case = {each.casefold(): each for each in self.names}
            found = {name: by_case.get(name.casefold(), "") for name in missing}
            left = [each for each in self.names if each not in {*found.values(), *options}]
            lone = left[0] if len(left) == 1 == [*found.values()].count("") else "COLUMN"
            words = [f"{keys}{options.get(name, 'text')}={found[name] or lone}" for name in missing]
            header = (
                ""
                if self.layout.startswith("json")
                else f"; for a file without a header set {keys}columns=[...]"
            )
            raise ConfigurationError(
                f"{self.path}: expected the columns {', '.join(names)}, got "
                f"{', '.join(self.names)[:200]} without {', '.join(missing)}: name the columns of "
                f"this file, such as {' '.join(words)}{header}"
            )

    def _lacks(self, name: str) -> bool:
        return name not in self.names and name.partition(".")[0] not in self.names


def find_parts(path: Path) -> tuple[Path, ...]:
    """Return all parts of a file, in order; raise ConfigurationError if one is missing.

    Example:
        `train-00000-of-00002.parquet` has `train-00001-of-00002.parquet` next to it.
    """
    if (match := PART.fullmatch(path.name)) is None:
        return (path,)
    count = int(match["parts"])
    names = [f"{match['name']}-{part:05}-of-{count:05}{match['suffix']}" for part in range(count)]
    if missing := [name for name in names if not path.with_name(name).is_file()]:
        raise ConfigurationError(
            f"{path}: expected {count} parts in the same folder, {missing[0]} is missing: copy it "
            "there"
        )
    return tuple(path.with_name(name) for name in names)


def open_table(
    path: Path,
    limits: InputLimits,
    delimiter: str | None = None,
    columns: Sequence[str] | None = None,
    *,
    default: str | None = None,
    by_line: bool = False,
) -> RowFile:
    """Detect the format and the columns of a file; raise ConfigurationError if it has none.

    Args:
        path: the file, or the first of its parts.
        limits: limits of lines and decompressed bytes.
        delimiter: of a CSV or TSV file; None: found by content (CSV), or a tab (TSV, where quotes
            have no meaning).
        columns: column names of a CSV or TSV file without a header.
        default: format to assume for a file that is not JSON; None: by its content and name.
        by_line: index rows by line: the header is line 0.
    """
    file_format = _detect_format(path, limits, delimiter, default)
    given = [*(columns or ())]
    if fault := explain_duplicate_names(given):
        raise ConfigurationError(f"{path}: {fault}")
    options = {
        "delimiter": delimiter,
        "columns": given or None,
        "text_key": next(iter(given), None),
    }
    component = READERS.resolve({"name": file_format, **select_options(file_format, options)})

    def start_reader() -> RowReader:
        reader = component.build(limits)

        assert isinstance(reader, RowReader), "as `is_table` says"

        return reader.keep_rows()

    paths = find_parts(path)
    class_names = dict[str, tuple[str, ...]]()
    reader = start_reader()
    header = [*reader.column_names(paths[0])] or given
    if isinstance(reader, TableFileReader):
        class_names = _read_class_names(path, reader.schema(paths[0]))

    def rows() -> Iterator[tuple[int, Row | Rejected]]:
        index = int(by_line and reader.has_header and not given)
        for part in paths:
            for row in _read_part_rows(start_reader(), part, class_names):
                yield index, replace(row, index=index) if isinstance(row, Rejected) else row
                index += 1

    names = [*map(_normalize_name, header)] or _read_first_names(path, rows())
    if fault := explain_duplicate_names(names):
        raise ConfigurationError(f"{path}: {fault}")
    info = path.with_name("dataset_info.json")
    others = (
        *paths[1:],
        *([info] if isinstance(reader, TableFileReader) and info.is_file() else []),
    )
    return RowFile(path, f"{file_format} with columns", rows, others, tuple(names), class_names)


def read_rows(path: Path, form: NormalForm = "prose") -> Iterator[tuple[str, Row]]:
    """Yield the location and the normalized fields of each row; skip blank lines.

    Raises:
        ConfigurationError: the file has no rows.
        IntegrityError: a row cannot be read.
    """
    for index, row in open_table(path, InputLimits(), by_line=True).rows():
        location = f"{path}, line {index + 1}"
        if not isinstance(row, Rejected):
            yield location, normalize_row(form, row)
        elif row.reason != "blank_line":
            raise IntegrityError(
                f"{location}: {row.explanation}; correct the row, because none may be skipped"
            )


def normalize_row(form: NormalForm, value: Any) -> Any:
    """Return the fields of a row with all strings, also nested ones, in the stored form `form`."""
    if isinstance(value, str):
        return normalize_field(form, value)
    if isinstance(value, Mapping):
        return {name: normalize_row(form, item) for name, item in value.items()}
    return [normalize_row(form, item) for item in value] if isinstance(value, list) else value


def _normalize_name(name: str) -> str:
    return normalize_field("prose", name)


def _read_first_names(path: Path, rows: Iterator[tuple[int, Row | Rejected]]) -> list[str]:
    """Return the field names of the first readable row."""
    damaged = ""
    for index, row in rows:
        if not isinstance(row, Rejected):
            return [*row]
        damaged = damaged or f"row {index + 1}: {row.explanation}"
    raise ConfigurationError(
        f"{path}: expected rows of {_list_formats()}, but none can be read "
        f"({damaged or 'it is empty'})"
    )


def is_table(name: str) -> bool:
    """Return whether this reader reads rows of named fields; archives are not tables."""
    return name in READERS.available() and issubclass(READERS.load_class(name), RowReader)


def _list_formats() -> str:
    return ", ".join(filter(is_table, READERS.classes()))


def _detect_format(
    path: Path, limits: InputLimits, delimiter: str | None, default: str | None
) -> str:
    name, _ = detect_reader(path)
    if default is None and is_table(name) and name not in ("csv", "tsv", "jsonl"):
        return name

    _, first = next(read_text_lines(path, limits), (0, ""))
    if isinstance(first, str) and first.lstrip().startswith("{"):
        return "jsonl"
    if delimiter is not None or default is not None:
        return default or "csv"
    if is_table(name):
        return name
    raise ConfigurationError(
        f"{path}: expected rows of {_list_formats()}, got {name}: rename it to end in .csv, .tsv "
        "or .jsonl, or give its reader the key {delimiter: ';'}"
    )


def _read_part_rows(
    reader: RowReader, path: Path, classes: Mapping[str, Sequence[str]]
) -> Iterator[Row | Rejected]:
    """Yield the rows of one part file; stop at damage, because later rows have no known index."""
    for item in reader.read(path, 0, path.stat().st_size):
        if isinstance(item, RawRecord):
            row = {_normalize_name(name): value for name, value in item.extra.items()}
            yield row | {name: None for name in classes if row.get(name) == _NO_LABEL}
        elif item.reason == "schema":
            raise ConfigurationError(f"{path}: {item.detail}")
        elif item.reason == "blank_line":
            yield Rejected("blank_line", 0)
        elif item.group == "malformed":
            detail = item.detail or explain_lost(item.lost_bytes)
            yield attach_texts(Rejected(item.reason, 0, detail), item.cells)
            if item.reason in DAMAGE_REASONS and not isinstance(reader, TableFileReader):
                return


def _read_class_names(path: Path, schema: pa.Schema) -> dict[str, tuple[str, ...]]:
    """Return the class names by column, from the metadata of the file or `dataset_info.json`."""
    class_names = {}

    if metadata := (schema.metadata or {}).get(b"huggingface"):
        description = parse_json(metadata).get("info", {})
    else:
        description = read_object(path.with_name("dataset_info.json"))

    for name, feature in (description.get("features") or {}).items():
        inner = feature
        while isinstance(inner, list) or (isinstance(inner, Mapping) and "feature" in inner):
            inner = inner[0] if isinstance(inner, list) else inner["feature"]
        if isinstance(inner, Mapping) and inner.get("_type") == "ClassLabel" and inner.get("names"):
            class_names[_normalize_name(name)] = tuple(inner["names"])

    return class_names
