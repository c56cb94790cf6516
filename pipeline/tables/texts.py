"""Read the texts of local files like the pipeline reads documents."""

from collections.abc import Iterator
from pathlib import Path

from clozeline.configuration.config import LocalPath, config_class
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.reader_options import check_options, select_options
from clozeline.pipeline.ingest.readers import SkippedRecord, detect_reader, suggest_tool
from clozeline.pipeline.ingest.readers.text import WholeFileReader
from clozeline.pipeline.registries import READERS
from clozeline.pipeline.tables.row_files import is_table
from clozeline.pipeline.text.normal_form import NormalForm, normalize_as


@config_class
class KeyedTexts:
    """Files whose text is in a named field or column."""

    path: LocalPath
    """file or folder"""
    text_key: str
    """field of JSON lines, or column of a table"""

    def __str__(self) -> str:
        return str(self.path)


def find_text_files(path: Path, *, with_rows: bool = False) -> list[Path]:
    """Return a file, or the visible files of a folder in order.

    With `with_rows`, only tables and JSON lines.

    Raises:
        ConfigurationError: there is no such file.
    """
    if path.is_file():
        return [path]
    files = [file for file in sorted(path.glob("[!.]*")) if file.is_file()]
    files = [file for file in files if not with_rows or is_table(detect_reader(file)[0])]
    if not files:
        raise ConfigurationError(
            f"{path}: no such file: give a file, or a folder with "
            f"{'tables' if with_rows else 'files'}"
        )
    return files


def read_texts(source: Path | KeyedTexts, form: NormalForm = "prose") -> Iterator[str]:
    """Yield the texts of a file or folder in a stored form."""
    yield from (text for _, text in read_named_texts(source, form))


def read_named_texts(
    source: Path | KeyedTexts, form: NormalForm = "prose"
) -> Iterator[tuple[str, str]]:
    """Yield names and texts of a file or folder: the field `text` of rows, or an entire text file.

    The name is the file name, for rows with the record number: `dev.jsonl:1`.

    Raises:
        ConfigurationError: there is no file, or its type is not supported.
        IntegrityError: a record has no text.
    """
    keys = {"text_key": source.text_key} if isinstance(source, KeyedTexts) else {}

    for file in find_text_files(source.path if isinstance(source, KeyedTexts) else source):
        name = detect_reader(file)[0]
        if name not in READERS.available():
            raise ConfigurationError(
                f"{file}: this file type is not supported: {suggest_tool(file) or 'unpack it'}"
            )

        check_options(keys, [name])
        reader = READERS.resolve({"name": name, **select_options(name, keys)}).build(InputLimits())
        for number, item in enumerate(reader.read(file, 0, file.stat().st_size), 1):
            if isinstance(item, SkippedRecord):
                if item.reason == "empty":
                    yield f"{file.name}:{number}", ""
                elif item.group == "malformed":
                    why = item.detail or item.reason.replace("_", " ")
                    raise IntegrityError(
                        f"{file}, record {number}: expected a text, got {why}; correct the record, "
                        f"or write {{path: {file}, text_key: COLUMN}}"
                    )
                continue

            if item.is_markup or item.target_text is not None:
                got = (
                    "a page"
                    if item.is_markup
                    else "a pair; name the columns in a first line, one of them text"
                )
                raise IntegrityError(f"{file}, record {number}: expected a text, got {got}")

            yield (
                file.name if isinstance(reader, WholeFileReader) else f"{file.name}:{number}",
                normalize_as(form, item.text)[0],
            )
