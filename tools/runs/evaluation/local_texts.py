"""Read texts of local files, plain or compressed: lines of JSON, or one text per file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from clozeline.configuration.config import HOME_EXPANDED, config_class
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.ingest.formats.byte_lines import ByteLines, Cut
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.reader_options import check_options
from clozeline.pipeline.ingest.readers import Counted, Reader, detect
from clozeline.pipeline.registries import READERS


@config_class
class KeyedTexts:
    """Files that name the field or column with the text, read as an input of the pipeline is."""

    path: Annotated[Path, HOME_EXPANDED]
    """file or folder"""
    text_key: str
    """field of lines of JSON, column of a table"""

    def __str__(self) -> str:
        return str(self.path)

    def named_texts(self) -> Iterator[tuple[str, str]]:
        """Yield the file and number of each text, and the text; IntegrityError for a record without one."""
        for file in files_of(self.path):
            name, options = detect(file)[0], {"text_key": self.text_key}
            check_options(options, [name])
            reader: Reader = READERS.resolve({"name": name, **options}).build(Limits())
            for number, item in enumerate(reader.read(file, 0, file.stat().st_size), 1):
                if not isinstance(item, Counted):
                    yield f"{file.name}:{number}", item.text
                elif item.group == "malformed" and item.reason != "empty":
                    raise IntegrityError(f"{file}, record {number}: {item.lacks or item.detail or item.reason}")


def files_of(path: Path, endings: tuple[str, ...] = ("",)) -> list[Path]:
    """Return a file, or the visible files of a folder in order, whose names contain one of the endings."""
    if path.is_file():
        return [path]
    visible = (file for file in sorted(path.glob("[!.]*")) if file.is_file())
    files = [file for file in visible if any(end in file.name for end in endings)]
    if not files:
        kinds = " or ".join(f"*{ending}*" for ending in endings if ending) or "files"
        raise ConfigurationError(f"{path}: no such file: give a file, or a folder with {kinds}")
    return files


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) for each line of a file; empty lines are skipped."""
    for number, line in text_lines(path):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except ValueError as error:
            raise IntegrityError(f"{path}, line {number}: expected a JSON object: {error}") from error
        if not isinstance(fields, dict):
            raise IntegrityError(f"{path}, line {number}: expected a JSON object, got {type(fields).__name__}")
        yield number, fields


def texts_of_files(source: Path | KeyedTexts) -> Iterator[str]:
    """Yield the texts of a file or folder: the field `text` of lines of JSON, any other file as one text."""
    named = named_texts(source) if isinstance(source, Path) else source.named_texts()
    yield from (text for _, text in named)


def named_texts(path: Path) -> Iterator[tuple[str, str]]:
    """Yield names and texts of a file or folder as `texts_of_files` reads them.

    The name is that of the file, for lines of JSON with the line number: `dev.jsonl:1`.
    """
    for file in files_of(path):
        if not {".json", ".jsonl"} & set(file.suffixes):
            yield file.name, "\n".join(line for _, line in text_lines(file))
            continue
        yield from ((f"{file.name}:{number}", text) for number, text in json_texts(file))


def json_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text) for the field `text` of each line of JSON."""
    for number, fields in json_lines(path):
        if not isinstance(text := fields.get("text"), str):
            raise IntegrityError(f"{path}, line {number}: expected a field 'text', got {', '.join(fields) or 'none'}")
        yield number, text


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line) of a file, plain or compressed."""
    lines = ByteLines(path, 0, path.stat().st_size, Limits(), resume=False)
    for number, (_, line) in enumerate(lines, 1):
        if isinstance(line, Cut):
            raise IntegrityError(f"{path}: is damaged ({line.reason}); fetch it again")
        if isinstance(line, int):
            raise IntegrityError(f"{path}, line {number}: has {line:,} bytes, more than the limit; split the file")
        try:
            yield number, line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise IntegrityError(f"{path}, line {number}: expected UTF-8: {error}") from error
