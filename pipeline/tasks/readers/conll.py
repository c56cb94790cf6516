"""Reader of CoNLL files: a word and its tags per line, blank lines between sentences (arXiv cs/0306050)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Layout, Rejected, TaggedWords, TaskFacts, TaskFile, TaskReader, keep_texts
from clozeline.pipeline.tasks.readers._sentence_lines import SentenceLines, sentence_lines
from clozeline.pipeline.tasks.readers._tag_schemes import Scheme, scheme_labels, to_bio, to_bioes

_DOCUMENT: Final = "-DOCSTART-"
_BLANKS: Final = re.compile(r"[ \t]+")


def _split(line: str, separator: str | None) -> list[str]:
    """Split a line at a separator, or at ASCII blanks: a no-break blank may be in a word."""
    return line.split(separator) if separator else _BLANKS.split(line.strip(" \t\r"))


class Conll(TaskReader):
    """Sentences with one tag per word: named entities (CoNLL-2003, WikiGold, WNUT-17, WikiANN) or plain classes.

    Columns are separated by tabs if the first line has one, else by spaces. Entity tags of any scheme (IOB1, IOB2,
    BIOES, BILOU, BMES) are converted to `scheme`. `-DOCSTART-` lines start documents. Rejected sentences: `fields`, a
    line with another number of columns; `bad_label`, an unknown tag; `empty_word`, a word that is empty without its
    `prefix`.

    Example:
        `Ada I-PER`, `sings O` are the words `Ada sings` with the tags `B-PER O`
    """

    @config_class
    class Options:
        task: str = "ner"
        """name of the task and of its folder"""
        entities: list[str] = field(default_factory=lambda: ["PER", "LOC", "ORG", "MISC"])
        """entity types; empty: tags are plain classes"""
        tags: list[str] = field(default_factory=list)
        """plain classes in order, instead of entities"""
        scheme: Scheme = "bio"
        """tags to train on: bio, or bioes, which also marks last and single words"""
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

    @property
    def facts(self) -> TaskFacts:
        options = self.options
        if options.tags:
            return TaskFacts(name=options.task, head="tagging", labels=tuple(options.tags), metrics=("accuracy",))
        labels = scheme_labels(options.entities, options.scheme)
        metrics = ("entity_f1", "strict_entity_f1", "accuracy")
        return TaskFacts(name=options.task, head="tagging", labels=labels, metrics=metrics)

    def open(self, path: Path) -> TaskFile:
        """Detect the columns from the first line."""
        for sentence in sentence_lines(path, self.limits):
            if lines := [line for line in sentence.lines if not line.startswith(_DOCUMENT)]:
                separator = "\t" if "\t" in lines[0] else None
                count = len(_split(lines[0], separator))
                name = f"{count} columns, {'tabs' if separator else 'spaces'}"
                word, tag = self.options.word_column, self.options.tag_column
                if len({index % count for index in (word, tag) if -count <= index < count}) < 2:
                    raise ConfigurationError(
                        f"{path}: expected a column {word} of words and a column {tag} of tags, got {name}: "
                        f"{lines[0]!r}"
                    )
                return TaskFile(path, Layout(name, data=(count, separator)))
        raise ConfigurationError(f"{path}: expected lines of a word and its tag, got none")

    def read(self, file: TaskFile) -> Iterator[TaggedWords | Rejected]:
        count, separator = file.layout.data
        document = 0
        for sentence in sentence_lines(file.path, self.limits):
            lines = [line for line in sentence.lines if not line.startswith(_DOCUMENT)]
            document += len(sentence.lines) - len(lines)
            if lines or sentence.damage:
                group = f"document {document}" if document else None
                rows = [_split(line, separator) for line in lines]
                words = " ".join(row[self.options.word_column] for row in rows if len(row) == count)
                yield keep_texts(self._to_item(sentence, rows, count, group), words)

    def _to_item(
        self, sentence: SentenceLines, rows: Sequence[Sequence[str]], count: int, group: str | None
    ) -> TaggedWords | Rejected:
        if sentence.damage:
            return Rejected(sentence.damage, sentence.index)
        if any(len(row) != count for row in rows):
            return Rejected("fields", sentence.index)
        options = self.options
        words = tuple(row[options.word_column].removeprefix(options.prefix).strip() for row in rows)
        if not all(words):
            return Rejected("empty_word", sentence.index)
        tags = [row[options.tag_column].strip() for row in rows]
        if not options.tags:
            try:
                tags = to_bio(tags)
            except ValueError as error:
                return Rejected("bad_label", sentence.index, self._detail(str(error)))
            tags = to_bioes(tags) if options.scheme == "bioes" else tags
        if unknown := [tag for tag in tags if tag not in self.label_numbers]:
            return Rejected("bad_label", sentence.index, self._detail(f"tag {unknown[0]!r}"))
        return TaggedWords(words, tuple(self.label_numbers[tag] for tag in tags), sentence.index, group)

    def _detail(self, problem: str) -> str:
        options = self.options
        known = f"entities=[{', '.join(options.entities)}]" if options.entities else f"tags=[{', '.join(options.tags)}]"
        return f"the column {options.tag_column} holds the {problem}; known are those of tasks.reader.{known}"
