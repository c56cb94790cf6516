r"""Read text files: lines, sentences, or one JSON value.

Lines are split at `\n` only, and a byte order mark is removed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from clozeline.errors import ConfigurationError
from clozeline.files import parse_json
from clozeline.pipeline.ingest.documents.document import FLAG_TRUNCATED_SOURCE
from clozeline.pipeline.ingest.formats.byte_lines import ByteLines
from clozeline.pipeline.ingest.formats.decompression import Damage, explain_lost
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers import RawRecord, SkippedRecord
from clozeline.pipeline.ingest.readers.text import TextReader
from clozeline.pipeline.tables.rejected import Rejected
from clozeline.pipeline.text.normal_form import NormalForm, normalize_field

_BOM: Final = "\ufeff"


def read_text_lines(
    path: Path, limits: InputLimits, encoding: str = "utf-8"
) -> Iterator[tuple[int, str | Rejected]]:
    r"""Yield the index and the text of each line of a file, without `\n` or `\r\n`.

    The file may be compressed.
    """
    # do not resume after damage: the line numbers would be unknown
    lines = ByteLines(path, 0, path.stat().st_size, limits, resume=False)
    for number, (_, line) in enumerate(lines):
        if isinstance(line, Damage):
            yield number, Rejected(line.reason, number, explain_lost(line.lost_bytes))
        else:
            try:
                text = line.decode(encoding)
            except UnicodeDecodeError:
                yield number, Rejected("bad_utf8", number)
                continue
            yield number, (text.removeprefix(_BOM) if number == 0 else text).removesuffix("\r")


def read_list(path: Path, form: NormalForm = "prose") -> list[str]:
    """Return the non-blank lines of a file, in a stored form.

    Raises:
        ConfigurationError: the file does not exist, or a line cannot be read.
    """
    if not path.is_file():
        raise ConfigurationError(f"{path}: no such file; name a file with one text per line")
    texts = []
    for index, line in read_text_lines(path, InputLimits()):
        if isinstance(line, Rejected):
            raise ConfigurationError(
                f"{path}, line {index + 1}: expected a text, got {line.explanation}: correct the "
                "line"
            )
        texts.append(normalize_field(form, line))
    return [text for text in texts if text.strip()]


@dataclass(slots=True)
class SentenceLines:
    """The lines of a sentence, in a file with one word per line and blank lines in between."""

    index: int
    """index of its first line"""
    lines: list[str] = field(default_factory=list)
    damage: str = ""
    """reason of the first line that cannot be read; empty if all can"""


def read_sentences(path: Path, limits: InputLimits) -> Iterator[SentenceLines]:
    """Yield the sentences of a file, compressed or not."""
    sentence: SentenceLines | None = None

    for number, line in read_text_lines(path, limits):
        if isinstance(line, str) and not line.strip():
            if sentence is not None:
                yield sentence
            sentence = None
            continue
        sentence = sentence or SentenceLines(number)
        if isinstance(line, Rejected):
            sentence.damage = sentence.damage or line.reason
        else:
            sentence.lines.append(line)

    if sentence is not None:
        yield sentence


def read_full_text(path: Path, limits: InputLimits) -> str | Rejected:
    """Return the text of a file in any encoding; rejected if damaged, too long or not text."""
    item = next(TextReader(TextReader.Options(), limits).read(path, 0, path.stat().st_size))
    if isinstance(item, RawRecord) and not item.flags & FLAG_TRUNCATED_SOURCE:
        return item.text
    return Rejected(item.reason if isinstance(item, SkippedRecord) else "truncated", 0)


def read_json_value(path: Path, limits: InputLimits) -> Any:
    """Return the value of a JSON file.

    Raises:
        ConfigurationError: the file is damaged, too large, or not one JSON value.
    """
    text = read_full_text(path, replace(limits, record_bytes=limits.decompressed_bytes))
    if isinstance(text, Rejected):
        raise ConfigurationError(
            f"{path}: cannot be read ({text.explanation}): copy the file again"
        )
    try:
        return parse_json(text)
    except ValueError as error:
        hint = ": it holds JSON lines" if str(error).startswith("Extra data") else ""
        raise ConfigurationError(f"{path}: not one valid JSON value ({error}){hint}") from error
