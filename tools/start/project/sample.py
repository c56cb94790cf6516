"""Measure how long the texts of an input are, from a bounded sample."""

import math
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Final

from clozeline.configuration.paths import as_url
from clozeline.errors import ConfigurationError
from clozeline.pipeline.clean.config import CleanConfig
from clozeline.pipeline.clean.extractors._extraction import shared_extractor_process
from clozeline.pipeline.execution.inputs import SourceFile, list_inputs, source_files
from clozeline.pipeline.ingest.formats.archives import ARCHIVES, MemberFile
from clozeline.pipeline.ingest.formats.decompression import InputFile
from clozeline.pipeline.ingest.formats.file_types import STYLES_AND_SCRIPTS
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.reader_options import select_options
from clozeline.pipeline.ingest.readers import (
    RawRecord,
    Reader,
    SkippedRecord,
    detect_members,
    detect_reader,
    is_fallback_reader,
)
from clozeline.pipeline.ingest.readers._rows import RowReader, text_lengths
from clozeline.pipeline.recipe import InputEntry
from clozeline.pipeline.registries import READERS
from clozeline.pipeline.text.text_statistics import TextStatistics

_SAMPLE_FILES: Final = 32
"""Most files that are opened, spread evenly over all files."""
_LONGEST_NAME: Final = 60
"""Most characters of the name of a column; more are a value of a table without names."""
_SAMPLE_RECORDS: Final = 1024
"""Most records that are read, from all files together."""
_RECORD_BYTES: Final = 1 << 22
"""Size from which on a record counts as long, without reading it."""
_TOO_LARGE: Final = frozenset({"too_large", "line_bytes"})
"""Reasons of readers for a record beyond the limits."""
_TEXT_CHARACTERS: Final = 20_000
"""Characters of a text whose words are counted."""
_TAG: Final = re.compile(
    r"(?i)</?(?:p|br|div|span|a|b|i|em|strong|font|h[1-6]|[uo]l|li|table|t[rdh])\b[^<>]*>|"
    r"&(?:amp|lt|gt|nbsp|quot|#\d+);"
)
_SEQUENCE_LETTERS: Final = 60
"""Letters of a word that no language has."""


@dataclass(frozen=True)
class Sample:
    """Lengths of sampled texts."""

    words: tuple[float, ...] = ()
    """words of each text, counted as by the filters; infinite for a record that is too large to be
    read here"""
    is_remote: bool = False
    """true if no file is on this machine"""
    has_sequences: bool = False
    """true if half of the texts are one long word of ASCII letters"""
    markup_share: float = 0
    """share of texts with HTML tags, although their reader takes them for plain text"""
    is_of_sequences: bool = False
    """true if the files hold nothing but DNA or proteins"""

    @property
    def median_words(self) -> float:
        """The length that half of the texts reach; there must be one."""
        return median(self.words)


def sample_texts(entries: Sequence[InputEntry]) -> Sample:
    """Read some records of the local files of an input.

    Raises:
        ConfigurationError: no row of a file has a text; the message names the column that may.
    """
    local = [entry for entry in entries if not any(map(as_url, entry.paths))]
    if not local:
        return Sample(is_remote=True)
    files = source_files(local)
    chosen = files[:: math.ceil(len(files) / _SAMPLE_FILES)]
    words: list[float] = []
    sequences = 0
    marked = 0
    without_text: list[tuple[SourceFile, str]] = []
    readers = set[type[Reader]]()

    for file in chosen:
        before = len(words)
        lacks = ""
        for item in islice(_read(file, readers), math.ceil(_SAMPLE_RECORDS / len(chosen))):
            if isinstance(item, SkippedRecord):
                if item.reason in _TOO_LARGE:
                    words.append(math.inf)
                lacks = lacks or item.detail
                continue
            text = _text_of(item)
            words.append(TextStatistics(text).words)
            sequences += _is_sequence(text)
            marked += not item.is_markup and _TAG.search(text) is not None
        if lacks and len(words) == before:
            without_text.append((file, lacks))

    for file, lacks in without_text:
        why, *_ = lacks.split("; did you")  # by a single row
        raise ConfigurationError(f"{file.path}: {why}; {_suggest_column(file)}")

    return Sample(
        tuple(words),
        markup_share=marked / max(1, len(words)),
        has_sequences=sequences * 2 > len(words),
        is_of_sequences=bool(readers) and all(reader.holds_sequences for reader in readers),
    )


def _suggest_column(file: SourceFile) -> str:
    """Return what to type for a file whose text is in another column: the longest, in all rows."""
    lengths = Counter[str]()
    for item in islice(_read(file, None), _SAMPLE_FILES):
        if isinstance(item, RawRecord):
            lengths.update(dict(text_lengths(item.extra)))

    if not lengths:
        return "no column holds a text: name the files to read by a pattern"
    [(column, _)] = lengths.most_common(1)
    if len(column) > _LONGEST_NAME:
        return (
            "its first line holds no names of columns: add input.columns='[id, text]', a name for "
            "each"
        )
    word = shlex.quote(f"input.text_key={column}")
    return (
        f"the longest texts are in {column!r}: add {word}; next to other files, give each its "
        "column: input='[{path: FILE, text_key: KEY}, FILE]'"
    )


def read_unknown_files_as_text(entry: InputEntry) -> InputEntry:
    """Return an input with the reader `text` for files that no reader knows.

    Readers know files by name or by content.

    A folder of source code has such files next to others, such as `.md` and `.json`, which are text
    here as well.
    """
    if entry.reader is not None or any(map(as_url, entry.paths)):
        return entry
    files, skipped = list_inputs([entry])
    has_code = any(
        is_fallback_reader(file.local_path) for file in files
    ) or not skipped.keys().isdisjoint(STYLES_AND_SCRIPTS)
    return replace(entry, reader="text") if has_code else entry


def _read(
    file: SourceFile, readers: set[type[Reader]] | None
) -> Iterator[RawRecord | SkippedRecord]:
    """Yield the records of a file, one at a time.

    The readers that read it are added to `readers`; without these, rows come in `extra`.
    """
    path = file.path
    assert isinstance(path, Path)
    limits = InputLimits(record_bytes=_RECORD_BYTES, line_bytes=_RECORD_BYTES)
    name, _ = detect_reader(path, file.entry.reader)
    if name not in ARCHIVES:
        yield from _read_file(file, path, name, limits, readers)
        return
    with tempfile.TemporaryDirectory() as scratch:
        for member, reader in detect_members(path, name, limits, Path(scratch), file.entry.reader):
            if isinstance(member, MemberFile):
                yield from _read_file(file, member, reader, limits, readers)


def _read_file(
    file: SourceFile,
    path: InputFile,
    name: str,
    limits: InputLimits,
    readers: set[type[Reader]] | None,
) -> Iterator[RawRecord | SkippedRecord]:
    options = {"name": name, **select_options(name, file.entry.options)}
    reader: Reader = READERS.resolve(options).build(limits)
    if readers is not None:
        readers.add(type(reader))
    elif isinstance(reader, RowReader):
        reader.keep_rows()
    if path.stat().st_size:
        yield from reader.read(path, 0, path.stat().st_size)


def _text_of(record: RawRecord) -> str:
    """Return the start of the text of a record, extracted from HTML."""
    if record.is_markup:
        return (
            shared_extractor_process(CleanConfig().extractor)
            .extract(record.text)
            .text[:_TEXT_CHARACTERS]
        )
    return record.text[:_TEXT_CHARACTERS]


def _is_sequence(text: str) -> bool:
    letters = text.strip()
    return len(letters) >= _SEQUENCE_LETTERS and letters.isascii() and letters.isalpha()
