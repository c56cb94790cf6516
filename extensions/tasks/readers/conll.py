"""Read CoNLL files: words and tags in lines, blank lines between sentences (arXiv cs/0306050)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.readers import RowFile
from clozeline.extensions.tasks.readers._labels import (
    ClassNames,
    are_entities,
    bio_labels,
    class_names,
)
from clozeline.extensions.tasks.readers._official_files import open_sentences
from clozeline.extensions.tasks.readers._official_layout import OfficialLayout
from clozeline.extensions.tasks.readers.labeled import LabeledReader
from clozeline.pipeline.ingest.formats.file_types import suffix_of
from clozeline.pipeline.ingest.readers import detect_reader
from clozeline.pipeline.ingest.readers.text import TextReader
from clozeline.pipeline.tables import read_sentences

_DOCUMENT_LINE: Final = re.compile("-DOCSTART-")
_BLANKS: Final = re.compile(r"[ \t]+")
_COLUMN_FORMATS: Final = frozenset({"text", "tsv", "csv"})
"""Formats that are detected for columns of words and tags; a CSV file must then have tabs."""
_OUTSIDE_TAG: Final = "O"
_NO_TAG: Final = "_"
_UNKNOWN_TAGS: Final = ("O", "_", "-", "-X-", "?")
"""Values of files for a word without a tag."""
_WORD_COLUMN_NAMES: Final = frozenset({"words", "tokens"})
"""Usual names of a column of words in the header of a table."""
_INSPECTED_LINES: Final = 200
"""Number of lines that decide whether a file holds columns."""


def _split(line: str, separator: str | None) -> list[str]:
    """Split a line at a separator, or at ASCII blanks: words may contain no-break spaces."""
    return line.split(separator) if separator else _BLANKS.split(line.strip(" \t\r"))


class ConllReader(OfficialLayout):
    """Sentences with one tag per word: named entities (such as CoNLL-2003) or other classes.

    Also WikiGold, WNUT-17 and WikiANN. Columns are separated by tabs if the first line has one,
    else by spaces. scheme (IOB1, IOB2, BIOES, BILOU, BMES) are converted to IOB2. `-DOCSTART-`
    lines start documents. Rejected sentences: `fields`, a line with another number of columns;
    `bad_label`, an unknown tag; `empty_word`, a word that is empty without its `prefix`.

    Example:
        `Ada I-PER`, `sings O` are the words `Ada sings` with the tags `B-PER O`
    """

    hint = "; set others by tasks.reader.entities=[...] or tags=[...]"

    @config_class
    class Options:
        task: str = "ner"
        """name of the task and of its folder"""
        entities: ClassNames = field(default_factory=lambda: ["PER", "LOC", "ORG", "MISC"])
        """entity types; empty: tags are not entities"""
        tags: ClassNames = field(default_factory=list)
        """classes in order, if tags are not entities"""
        word_column: int = 0
        """column of the word, from 0; negative: from the end"""
        tag_column: int = -1
        """column of the tag"""
        prefix: str = ""
        """text to remove before each word, such as `en:` in WikiANN"""

        def __post_init__(self) -> None:
            if bool(self.entities) == bool(self.tags):
                raise ValueError("give entities or tags: entities=[] with tags=[...], or no tags")

    options: Options

    @cached_property
    def spec(self) -> LabeledReader.Options:
        options = self.options
        classes = {name: name for name in options.tags or bio_labels(options.entities)}
        return LabeledReader.Options(
            task=options.task, words="words", label="tags", classes=classes
        )

    def open(self, path: Path) -> RowFile:
        """Detect the columns from the first line."""
        first, separator = self._first_line(path)
        count = len(_split(first, separator))
        name = f"{count} columns, {'tabs' if separator else 'spaces'}"
        word = self.options.word_column
        tag = self.options.tag_column
        prefix = self.options.prefix

        if len({index % count for index in (word, tag) if -count <= index < count}) < 2:
            raise ConfigurationError(
                f"{path}: expected a column {word} of words and a column {tag} of tags, got "
                f"{name}: {first!r}"
            )

        def parse(line: str) -> Sequence[str]:
            cells = _split(line, separator)
            return (
                (cells[word].removeprefix(prefix).strip(), cells[tag].strip())
                if len(cells) == count
                else [""]
            )

        return open_sentences(path, self.limits, name, _DOCUMENT_LINE, parse)

    def open_unlabeled(self, path: Path) -> RowFile:
        """Open a file whose lines may lack the tag; lines of text are refused."""
        first, separator = self._first_line(path)

        if _WORD_COLUMN_NAMES & {*_split(first, separator)} and not self._is_tag(
            _split(first, separator)[-1]
        ):
            raise ConfigurationError(
                f"{path}: expected lines of a word and its tag, got a header of columns: {first!r}"
            )

        word = self.options.word_column
        prefix = self.options.prefix
        # tabs separate columns; between blanks, a tag is recognized by its class
        if (
            separator is None
            and suffix_of(path.name) in TextReader.suffixes
            and not self._holds_columns(path)
        ):
            raise ConfigurationError(f"{path}: expected a line for each word, got lines of text")

        def parse(line: str) -> Sequence[str]:
            cells = _split(line, separator)
            has_word = -len(cells) <= word < len(cells)
            return (cells[word].removeprefix(prefix).strip(), _NO_TAG) if has_word else [""]

        return open_sentences(path, self.limits, "words and tags", _DOCUMENT_LINE, parse)

    def _first_line(self, path: Path) -> tuple[str, str | None]:
        """Return the first line with a word, and the separator of its columns; None: blanks.

        Raises:
            ConfigurationError: no line has a word, or the file is a table.
        """
        file_type = detect_reader(path)[0]
        first = ""

        if file_type in _COLUMN_FORMATS:
            first = next(self._word_lines(path), "")
            if not first:
                raise ConfigurationError(f"{path}: expected lines of a word and its tag, got none")
            file_type = "jsonl" if first.lstrip().startswith('{"') else file_type

        if file_type not in _COLUMN_FORMATS or (file_type == "csv" and "\t" not in first):
            raise ConfigurationError(
                f"{path}: expected lines of a word and its tag, got {file_type}: name its columns "
                "by tasks.reader='{name: labeled, words: COLUMN, label: COLUMN}'"
            )

        return first, "\t" if "\t" in first else None

    def _word_lines(self, path: Path) -> Iterator[str]:
        """Yield the lines with a word."""
        for sentence in read_sentences(path, self.limits):
            yield from (line for line in sentence.lines if not _DOCUMENT_LINE.match(line))

    def _holds_columns(self, path: Path) -> bool:
        """Return whether most of the first lines are a single word, or end in a tag."""
        cells = [_split(line, None) for line in islice(self._word_lines(path), _INSPECTED_LINES)]
        return 2 * sum(len(line) == 1 or self._is_tag(line[-1]) for line in cells) >= len(cells)

    def _is_tag(self, text: str) -> bool:
        known = (*class_names(self.spec.classes), *_UNKNOWN_TAGS)
        return text in known or are_entities([_OUTSIDE_TAG, text])
