"""Read the rows of task files as named columns: tables of every format, and lines of text."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from clozeline.errors import ConfigurationError
from clozeline.files import parse_json
from clozeline.pipeline.ingest.formats.decompression import explain_lost
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import Counted, Item, RawRecord, detect
from clozeline.pipeline.ingest.readers._rows import explain_unusable, value_at
from clozeline.pipeline.ingest.readers._tables import Table, TableFile, iterate_rows
from clozeline.pipeline.ingest.readers.arrow import Arrow
from clozeline.pipeline.ingest.readers.csv import Csv
from clozeline.pipeline.ingest.readers.parquet import Parquet
from clozeline.pipeline.tasks.readers._task_items import GROUP, Rejected, keep_texts
from clozeline.pipeline.tasks.readers._text_lines import read_whole_json, sentence_lines, text_lines

Row: TypeAlias = Mapping[str, Any]

PART: Final = re.compile(r"(?P<name>.+)-(?P<part>[0-9]{5})-of-(?P<parts>[0-9]{5})(?P<suffix>\..+)")
"""Name of one of the parts in which `datasets` saves a split: `train-00000-of-00002.parquet`."""
_TABLES: Final[Mapping[str, type[TableFile]]] = {"parquet": Parquet, "arrow": Arrow}
_FORMATS: Final = "CSV, TSV, JSON, JSON lines, Parquet, or Arrow as `datasets` saves it"
_HIDDEN: Final = -1
"""No label, in a column with stored class names."""


@dataclass(frozen=True)
class TaskFile:
    """A file of a task, plain or compressed, with the layout detected in it."""

    path: Path
    layout: str
    """name in reports, such as `official`"""
    rows: Callable[[], Iterator[tuple[int, Row | Rejected]]]
    """start reading: yields the index and the fields of each row, or the reason why it has none"""
    others: tuple[Path, ...] = ()
    """further files that are read for the rows, such as those of the answers"""
    names: tuple[str, ...] = ()
    """columns; of JSON lines the fields of the first row"""
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """class names in order, by column, as `datasets` stores them (ClassLabel)"""

    def require(self, *names: str, keys: str = "tasks.reader.") -> None:
        """Raise ConfigurationError if a column is missing; a dotted path is looked up in every row."""
        missing = [name for name in names if name not in self.names and name.partition(".")[0] not in self.names]
        if missing:
            header = (
                "" if self.layout.startswith("json") else f"; {keys}columns=[...] are those of a file without header"
            )
            raise ConfigurationError(
                f"{self.path}: expected the columns {', '.join(names)}, got {', '.join(self.names)[:200]} without "
                f"{', '.join(missing)}: name the columns of this file, such as {keys}text=COLUMN{header}"
            )


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


def open_table(
    path: Path,
    limits: Limits,
    delimiter: str | None = None,
    columns: Sequence[str] | None = None,
    *,
    default: str | None = None,
    by_line: bool = False,
) -> TaskFile:
    """Detect the format and the columns of a file; ConfigurationError if it has none.

    Args:
        path: the file, or the first of its parts.
        limits: bounds of lines and of decompressed bytes.
        delimiter: None for that of the first line in CSV files, where quotes enclose fields, and a tab in TSV files,
            where quotes have no meaning; any other value is that of a file with quotes.
        columns: names of the columns of a CSV or TSV file without a header.
        default: format of every file that holds no JSON; None: by content and name.
        by_line: count the header in the indices of the rows, so that they are those of lines.
    """
    paths, names, class_names = parts_of(path), [*(columns or ())], {}
    format_ = _detect_format(path, limits, delimiter, default)
    if format_ in _TABLES:
        with _open_arrow(paths[0], format_, limits) as (schema, _):
            names, class_names = schema.names, _class_names(path, schema)
        read = partial(_arrow_rows, format_=format_, limits=limits, classes=class_names.keys())
    elif format_ == "csv":
        read = partial(_csv_rows, limits=limits, options=Csv.Options(delimiter=delimiter, columns=names or None))
    elif format_ == "tsv":
        header, names = not names, names or _tsv_header(paths[0], limits)
        read = partial(_tsv_rows, limits=limits, names=names, header=header)
    else:
        read = partial(_json_rows, limits=limits, by_line=format_ == "jsonl")
    first = int(by_line and format_ in ("csv", "tsv") and not columns)

    def rows() -> Iterator[tuple[int, Row | Rejected]]:
        at = first
        for part in paths:
            for row in read(part):
                yield at, replace(row, index=at) if isinstance(row, Rejected) else row
                at += 1

    damaged = ""
    if not names:  # those of the first row that can be read
        for index, row in rows():
            if not isinstance(row, Rejected):
                names = [*row]
                break
            damaged = damaged or f"row {index + 1}: {row.detail or row.reason.replace('_', ' ')}"
        else:
            found = f"none that can be read ({damaged or 'it is empty'})"
            raise ConfigurationError(f"{path}: expected rows of {_FORMATS}, got {found}")
    if format_ != "csv" and (why := explain_unusable(names[0] if names else "", names)):
        raise ConfigurationError(f"{path}: {why}")
    info = path.with_name("dataset_info.json")
    others = (*paths[1:], *([info] if format_ in _TABLES and info.is_file() else []))
    return TaskFile(path, f"{format_} with columns", rows, others, tuple(names), class_names)


def open_lines(
    path: Path,
    limits: Limits,
    layout: str,
    expected: str,
    parse: Callable[[str], Row | None],
    encoding: str = "utf-8",
) -> TaskFile:
    """Return a file with a row in each line; ConfigurationError if the first line is no row.

    `parse` returns the fields of a line, or None if it is no row; `expected` says what it should be.
    """

    def rows() -> Iterator[tuple[int, Row | Rejected]]:
        for index, line in text_lines(path, limits, encoding):
            if isinstance(line, Rejected):
                yield index, line
            elif not line.strip():
                yield index, Rejected("blank_line", index)
            elif (row := parse(line)) is None:
                yield index, Rejected("fields", index, f"expected {expected}, got {line[:60]!r}", (line,))
            else:
                yield index, row

    _, first = next(rows(), (0, Rejected("empty_file", 0)))
    if isinstance(first, Rejected):
        why = first.detail or f"expected {expected}, got {first.reason.replace('_', ' ')}"
        raise ConfigurationError(f"{path}: line 1: {why}")
    return TaskFile(path, layout, rows)


def open_sentences(
    path: Path, limits: Limits, layout: str, document: re.Pattern[str], parse: Callable[[str], Sequence[str]]
) -> TaskFile:
    """Return a file with a word a line, and blank lines between sentences.

    `parse` returns the word and the tag of a line, the word alone if the line is damaged, or nothing if it has none.
    Lines that match `document` start documents.
    """

    def rows() -> Iterator[tuple[int, Row | Rejected]]:
        documents = 0
        for sentence in sentence_lines(path, limits):
            found = [parse(line) for line in sentence.lines if not document.match(line)]
            documents += len(sentence.lines) - len(found)
            words = [word for word in found if word]
            damage = sentence.damage or ("" if words else "no_words")
            if not found and not sentence.damage:
                continue  # only the start of a document
            if damage or any(len(word) == 1 for word in words):
                text = " ".join(word for word, *_ in words)
                yield sentence.index, keep_texts(Rejected(damage or "fields", sentence.index), text)
            else:
                group = f"document {documents}" if documents else None
                columns = {"words": [word for word, _ in words], "tags": [tag for _, tag in words]}
                yield sentence.index, {**columns, GROUP: group}

    return TaskFile(path, layout, rows)


def open_folder(
    path: Path,
    files: Sequence[Path],
    limits: Limits,
    layout: str,
    parse: Callable[[Path, str], Iterable[Row | Rejected]],
) -> TaskFile:
    """Return the rows that `parse` makes of text files and their texts, or why a file has none."""

    def rows_of(file: Path) -> Iterable[Row | Rejected]:
        if file.stat().st_size > limits.record_bytes:
            why = f"{file.name} is longer than limits.record_bytes, {limits.record_bytes}"
            return [Rejected("record_bytes", 0, why)]
        try:
            text = file.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            return [Rejected("bad_utf8", 0, f"{file.parent.name}/{file.name} is not UTF-8 ({error})")]
        return parse(file, text)

    def rows() -> Iterator[tuple[int, Row | Rejected]]:
        for index, row in enumerate(row for file in files for row in rows_of(file)):
            yield index, replace(row, index=index) if isinstance(row, Rejected) else row

    return TaskFile(path, layout, rows, tuple(files))


def texts_at(row: Row, name: str) -> tuple[str, ...]:
    """Return the text of a field, or the texts of a list; empty if it is absent or holds anything else."""
    value = value_at(row, name)
    texts = value if isinstance(value, list) else [value]
    return tuple(texts) if all(isinstance(text, str) for text in texts) else ()


def _detect_format(path: Path, limits: Limits, delimiter: str | None, default: str | None) -> str:
    name, _ = detect(path)
    if default is None and (name in _TABLES or name == "json_array"):
        return name
    _, first = next(text_lines(path, limits), (0, ""))
    if isinstance(first, str) and first.lstrip().startswith("{"):
        return "jsonl"
    if delimiter is not None or default is not None:
        return default or "csv"
    if name in ("csv", "tsv", "jsonl"):
        return name
    raise ConfigurationError(
        f"{path}: expected {_FORMATS}, got {name}: rename it to end in .csv, .tsv or .jsonl, or give its delimiter: "
        "tasks.reader.delimiter=';'"
    )


def json_lines(path: Path, limits: Limits) -> Iterator[tuple[int, Row | Rejected]]:
    """Yield the index and the object of each line; any other line is rejected as `fields`."""
    for index, line in text_lines(path, limits):
        if isinstance(line, Rejected) or not line.strip():
            yield index, line if isinstance(line, Rejected) else Rejected("blank_line", index)
            continue
        try:
            yield index, _as_row(parse_json(line), index)
        except ValueError as error:
            yield index, Rejected("fields", index, f"it is no JSON ({error})", (line,))


def _json_rows(path: Path, limits: Limits, *, by_line: bool) -> Iterator[Row | Rejected]:
    if by_line:
        return (row for _, row in json_lines(path, limits))
    return map(_as_row, read_whole_json(path, limits))


def _as_row(value: Any, index: int = 0) -> Row | Rejected:
    return value if isinstance(value, Mapping) else keep_texts(Rejected("fields", index, "it is no JSON object"), value)


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
        return RawRecord(lines.taken[0][0], "csv", lines.length, "", extra=dict(zip(names, row, strict=True)))


def _csv_rows(path: Path, limits: Limits, options: Csv.Options) -> Iterator[Row | Rejected]:
    for item in _CsvRows(options, limits).read(path, 0, path.stat().st_size):
        if isinstance(item, RawRecord):
            yield item.extra
        elif item.reason == "schema":
            raise ConfigurationError(f"{path}: {item.lacks}")
        elif item.group == "malformed":
            yield keep_texts(Rejected(item.reason, 0, item.detail or explain_lost(item.lost)), item.lacks)


def _tsv_header(path: Path, limits: Limits) -> list[str]:
    _, line = next(text_lines(path, limits), (0, Rejected("empty_file", 0)))
    if isinstance(line, Rejected):
        raise ConfigurationError(f"{path}: the first line cannot be read ({line.reason.replace('_', ' ')})")
    return line.split("\t")


def _tsv_rows(path: Path, limits: Limits, names: Sequence[str], *, header: bool) -> Iterator[Row | Rejected]:
    """Yield the tab-separated fields of each line.

    Quotes are ordinary characters: with `csv`, a stray quote would join lines and silently lose rows.
    """
    for index, line in islice(text_lines(path, limits), int(header), None):
        cells = [] if isinstance(line, Rejected) else line.split("\t")
        if isinstance(line, Rejected):
            yield line
        elif not line.strip():
            yield Rejected("blank_line", index)
        elif len(cells) != len(names):
            yield Rejected("fields", 0, f"it has {len(cells)} fields instead of {len(names)}", (*cells,))
        else:
            yield dict(zip(names, cells, strict=True))


def _arrow_rows(path: Path, limits: Limits, format_: str, classes: Iterable[str]) -> Iterator[Row | Rejected]:
    with _open_arrow(path, format_, limits) as (_, parts):
        for part in parts:
            for batch in part.batches():
                for row in iterate_rows(batch):
                    if row is None:
                        yield Rejected("bad_utf8", 0)
                        continue
                    yield row | {name: None for name in classes if row[name] == _HIDDEN}


@contextmanager
def _open_arrow(path: Path, format_: str, limits: Limits) -> Iterator[Table]:
    """Open a table; ConfigurationError where it is damaged, as labels of a part of the rows are no data set."""
    kind = _TABLES[format_]
    try:
        with kind(kind.Options(), limits).table(path) as table:
            yield table
    except (pa.ArrowException, OSError) as error:
        raise ConfigurationError(f"{path}: is damaged ({error}): copy the file again") from error


def _class_names(path: Path, schema: pa.Schema) -> dict[str, tuple[str, ...]]:
    """Return the class names of columns, from the metadata of the file or the dataset_info.json next to it."""
    found, info = {}, path.with_name("dataset_info.json")
    if stored := (schema.metadata or {}).get(b"huggingface"):
        described = parse_json(stored).get("info", {})
    else:
        described = parse_json(info.read_bytes()) if info.is_file() else {}
    for name, feature in (described.get("features") or {}).items():
        inner = feature
        while isinstance(inner, list) or (isinstance(inner, Mapping) and "feature" in inner):
            inner = inner[0] if isinstance(inner, list) else inner["feature"]
        if isinstance(inner, Mapping) and inner.get("_type") == "ClassLabel" and inner.get("names"):
            found[name] = tuple(inner["names"])
    return found
