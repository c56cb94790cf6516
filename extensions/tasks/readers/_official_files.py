"""Read official task files that are not tables: a row per line, a word per line, a row per file."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.readers._task_items import GROUP
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers._rows import value_at
from clozeline.pipeline.tables import (
    Rejected,
    Row,
    RowFile,
    attach_texts,
    read_full_text,
    read_sentences,
    read_text_lines,
)


def open_lines(
    path: Path,
    limits: InputLimits,
    layout: str,
    expected: str,
    parse: Callable[[str], Row | None],
    encoding: str = "utf-8",
) -> RowFile:
    """Open a file with one row per line; ConfigurationError if the first line is not a row.

    `parse` returns the fields of a line, or None if it is not a row; messages describe a row by
    `expected`.
    """

    def rows() -> Iterator[tuple[int, Row | Rejected]]:
        for index, line in read_text_lines(path, limits, encoding):
            if isinstance(line, Rejected):
                yield index, line
            elif not line.strip():
                yield index, Rejected("blank_line", index)
            elif (row := parse(line)) is None:
                yield (
                    index,
                    Rejected("fields", index, f"expected {expected}, got {line[:60]!r}", (line,)),
                )
            else:
                yield index, row

    _, first = next(rows(), (0, Rejected("empty_file", 0)))
    if isinstance(first, Rejected):
        reason = first.detail or f"expected {expected}, got {first.reason.replace('_', ' ')}"
        raise ConfigurationError(f"{path}: line 1: {reason}")

    return RowFile(path, layout, rows)


def open_sentences(
    path: Path,
    limits: InputLimits,
    layout: str,
    document: re.Pattern[str],
    parse: Callable[[str], Sequence[str]],
) -> RowFile:
    """Open a file with one word per line, and blank lines between sentences.

    `parse` returns (word, tag) of a line, (word,) if the line is damaged, and () if the line has no
    word. Lines that match `document` start documents.
    """

    def rows() -> Iterator[tuple[int, Row | Rejected]]:
        documents = 0

        for sentence in read_sentences(path, limits):
            parsed = [parse(line) for line in sentence.lines if not document.match(line)]
            documents += len(sentence.lines) - len(parsed)
            words = [word for word in parsed if word]
            damage = sentence.damage or ("" if words else "no_words")
            if not parsed and not sentence.damage:
                continue  # only the start of a document

            if damage or any(len(word) == 1 for word in words):
                text = " ".join(word for word, *_ in words)
                yield (
                    sentence.index,
                    attach_texts(Rejected(damage or "fields", sentence.index), text),
                )
            else:
                group = f"document {documents}" if documents else None
                texts = [word for word, _ in words]
                tags = [tag for _, tag in words]
                yield sentence.index, {"words": texts, "tags": tags, GROUP: group}

    return RowFile(path, layout, rows)


def open_folder(
    path: Path,
    files: Sequence[Path],
    limits: InputLimits,
    layout: str,
    parse: Callable[[Path, str], Iterable[Row | Rejected]],
) -> RowFile:
    """Open text files whose rows `parse` returns; a file that cannot be read is rejected."""

    def rows_of(file: Path) -> Iterable[Row | Rejected]:
        text = read_full_text(file, limits)
        if isinstance(text, Rejected):
            return [replace(text, detail=f"{file.parent.name}/{file.name}: {text.explanation}")]
        return parse(file, text)

    def rows() -> Iterator[tuple[int, Row | Rejected]]:
        rows_of_files = chain.from_iterable(map(rows_of, files))
        for index, row in enumerate(rows_of_files):
            yield index, replace(row, index=index) if isinstance(row, Rejected) else row

    return RowFile(path, layout, rows, tuple(files))


def texts_at(row: Row, name: str) -> tuple[str, ...]:
    """Return the text of a field, or the texts of a list; empty if it holds anything else."""
    value = value_at(row, name)
    texts = value if isinstance(value, list) else [value]
    return tuple(texts) if all(isinstance(text, str) for text in texts) else ()


def text_files(path: Path) -> tuple[Path, ...]:
    """Return the text files of a split in order, given one of them.

    The split is a folder of folders: `train/pos/0_9.txt`, `dev/high/12.txt`.
    """
    return tuple(sorted(path.parent.parent.glob("[!.]*/[!.]*.txt")))
