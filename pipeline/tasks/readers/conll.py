"""Reader of CoNLL files: a word and its tags per line, blank lines between sentences (arXiv cs/0306050)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Rejected, TaggedWords, TaskFile, TaskItem
from clozeline.pipeline.tasks.readers._column_files import open_sentences
from clozeline.pipeline.tasks.readers._labels import bio_labels
from clozeline.pipeline.tasks.readers._text_lines import sentence_lines
from clozeline.pipeline.tasks.readers.labelled import Labelled, OfficialLayout

_DOCUMENT: Final = re.compile("-DOCSTART-")
_BLANKS: Final = re.compile(r"[ \t]+")


def _split(line: str, separator: str | None) -> list[str]:
    """Split a line at a separator, or at ASCII blanks: a no-break blank may be in a word."""
    return line.split(separator) if separator else _BLANKS.split(line.strip(" \t\r"))


class Conll(OfficialLayout):
    """Sentences with one tag per word: named entities (CoNLL-2003, WikiGold, WNUT-17, WikiANN) or plain classes.

    Columns are separated by tabs if the first line has one, else by spaces. Entity tags of any scheme (IOB1, IOB2,
    BIOES, BILOU, BMES) are converted to IOB2. `-DOCSTART-` lines start documents. Rejected sentences: `fields`, a
    line with another number of columns; `bad_label`, an unknown tag; `empty_word`, a word that is empty without its
    `prefix`.

    Example:
        `Ada I-PER`, `sings O` are the words `Ada sings` with the tags `B-PER O`
    """

    hint: ClassVar[str] = "; tasks.reader.entities=[...] or tags=[...] names others"

    @config_class
    class Options:
        task: str = "ner"
        """name of the task and of its folder"""
        entities: list[str] = field(default_factory=lambda: ["PER", "LOC", "ORG", "MISC"])
        """entity types; empty: tags are plain classes"""
        tags: list[str] = field(default_factory=list)
        """plain classes in order, instead of entities"""
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
    def spec(self) -> Labelled.Options:
        options = self.options
        classes = {name: name for name in options.tags or bio_labels(options.entities)}
        return Labelled.Options(task=options.task, words="words", label="tags", classes=classes)

    def open(self, path: Path) -> TaskFile:
        """Detect the columns from the first line."""
        lines = (line for sentence in sentence_lines(path, self.limits) for line in sentence.lines)
        first = next((line for line in lines if not _DOCUMENT.match(line)), None)
        if first is None:
            raise ConfigurationError(f"{path}: expected lines of a word and its tag, got none")
        separator = "\t" if "\t" in first else None
        count = len(_split(first, separator))
        name = f"{count} columns, {'tabs' if separator else 'spaces'}"
        word, tag, prefix = self.options.word_column, self.options.tag_column, self.options.prefix
        if len({index % count for index in (word, tag) if -count <= index < count}) < 2:
            raise ConfigurationError(
                f"{path}: expected a column {word} of words and a column {tag} of tags, got {name}: {first!r}"
            )

        def parse(line: str) -> Sequence[str]:
            cells = _split(line, separator)
            return (cells[word].removeprefix(prefix).strip(), cells[tag].strip()) if len(cells) == count else [""]

        return open_sentences(path, self.limits, name, _DOCUMENT, parse)

    def read_unlabeled(self, path: Path) -> Iterator[tuple[TaskItem | Rejected, Any]]:
        """Yield the sentences of a file whose lines may lack the tag."""
        word, prefix = self.options.word_column, self.options.prefix
        for number, sentence in enumerate(sentence_lines(path, self.limits)):
            if sentence.damage:
                yield Rejected(sentence.damage, number), None
                continue
            words = tuple(line.split()[word].removeprefix(prefix) for line in sentence.lines)
            yield TaggedWords(words, (0,) * len(words), number), None
