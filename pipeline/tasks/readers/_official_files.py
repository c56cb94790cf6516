"""Read official files of tasks that are no tables: a row a line, a word a line, or a file a row."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from clozeline.errors import ConfigurationError
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
from clozeline.pipeline.tasks.readers._task_items import GROUP


def open_lines(
    path: Path,
    limits: InputLimits,
    layout: str,
    expected: str,
    parse: Callable[[str], Row | None],
    encoding: str = "utf-8",
) -> RowFile:
    """Return a file with a row in each line; ConfigurationError if the first line is no row.

    `parse` returns the fields of a line, or None if it is no row; `expected` says what it should
    be.
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
        why = first.detail or f"expected {expected}, got {first.reason.replace('_', ' ')}"
        raise ConfigurationError(f"{path}: line 1: {why}")
    return RowFile(path, layout, rows)


def open_sentences(
    path: Path,
    limits: InputLimits,
    layout: str,
    document: re.Pattern[str],
    parse: Callable[[str], Sequence[str]],
) -> RowFile:
    """Return a file with a word a line, and blank lines between sentences.

    `parse` returns the word and the tag of a line, the word alone if the line is damaged, or
    nothing if it has none. Lines that match `document` start documents.
    """

    def rows() -> Iterator[tuple[int, Row | Rejected]]:
        documents = 0
        for sentence in read_sentences(path, limits):
            found = [parse(line) for line in sentence.lines if not document.match(line)]
            documents += len(sentence.lines) - len(found)
            words = [word for word in found if word]
            damage = sentence.damage or ("" if words else "no_words")
            if not found and not sentence.damage:
                continue  # only the start of a document
            if damage or any(len(word) == 1 for word in words):
                text = " ".join(word for word, *_ in words)
                yield (
                    sentence.index,
                    attach_texts(Rejected(damage or "fields", sentence.index), text),
                )
            else:
                group = f"document {documents}" if documents else None
                columns = {"words": [word for word, _ in words], "tags": [tag for _, tag in words]}
                yield sentence.index, {**columns, GROUP: group}

    return RowFile(path, layout, rows)


def open_folder(
    path: Path,
    files: Sequence[Path],
    limits: InputLimits,
    layout: str,
    parse: Callable[[Path, str], Iterable[Row | Rejected]],
) -> RowFile:
    """Return the rows that `parse` makes of text files and their texts, or why a file has none."""

    def rows_of(file: Path) -> Iterable[Row | Rejected]:
        text = read_full_text(file, limits)
        if isinstance(text, Rejected):
            return [replace(text, detail=f"{file.parent.name}/{file.name}: {text.explanation}")]
        return parse(file, text)

    def rows() -> Iterator[tuple[int, Row | Rejected]]:
        for index, row in enumerate(row for file in files for row in rows_of(file)):
            yield index, replace(row, index=index) if isinstance(row, Rejected) else row

    return RowFile(path, layout, rows, tuple(files))


def texts_at(row: Row, name: str) -> tuple[str, ...]:
    """Return the text of a field, or the texts of a list; empty if it is absent or holds anything else."""
    value = value_at(row, name)
    texts = value if isinstance(value, list) else [value]
    return tuple(texts) if all(isinstance(text, str) for text in texts) else ()


def text_files(path: Path) -> tuple[Path, ...]:
    """Return the text files of the split that a file belongs to, its folder and the folders next to it, in order.

    Such a split is a folder of folders: `train/pos/0_9.txt`, `dev/high/12.txt`.
    """
    return tuple(sorted(path.parent.parent.glob("[!.]*/[!.]*.txt")))
