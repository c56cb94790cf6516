"""CoNLL's columns: one word and its tags a line, a blank line between sentences (CoNLL-2003, arXiv cs/0306050)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import field
from pathlib import Path
from typing import ClassVar, Final

from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Rejected, TaggedWords, TaskFacts, TaskFile, TaskReader
from clozeline.pipeline.tasks.readers._sentence_lines import SentenceLines, sentence_count, sentence_lines
from clozeline.pipeline.tasks.readers._tag_schemes import Scheme, scheme_labels, to_bio, to_bioes
from clozeline.pipeline.tasks.readers._text_lines import LINE_REASONS

_DOCUMENT: Final = "-DOCSTART-"


@plain_dataclass(frozen=True)
class _Columns:
    """Number of columns and what separates them, as the first line shows."""

    count: int
    separator: str | None
    has_labels: bool = True

    @property
    def name(self) -> str:
        return f"{self.count} columns, {'tabs' if self.separator else 'spaces'}"

    def split(self, line: str) -> list[str]:
        return line.split(self.separator)

    def hold(self, places: Sequence[int]) -> bool:
        """Return whether there are these columns, and they differ."""
        inside = [index % self.count for index in places if -self.count <= index < self.count]
        return len(set(inside)) == len(places)


class Conll(TaskReader):
    """Sentences of words with one tag each: entities (CoNLL-2003, WikiGold, WNUT-17, WikiANN), or plain classes.

    Columns are separated by tabs where the first line has one, else by spaces. Tags of entities may be in IOB1, IOB2 or
    BIOES; they become `scheme`. `-DOCSTART-` lines begin documents, and are no sentences. A sentence with a line of
    more or fewer columns than the first is refused as `fields`, one with an unknown tag as `bad_label`, one with a word
    that is empty without its `prefix` as `empty_word`.

    Example:
        `Ada I-PER`, `sings O` are the words `Ada sings` with the tags `B-PER O`
    """

    VERSION: ClassVar[int] = 1
    reasons: ClassVar[tuple[str, ...]] = (*LINE_REASONS, "fields", "bad_label", "empty_word")

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """The task and its columns."""

        task: str = "ner"
        """name of the task, and of the folder of its sets"""
        entities: list[str] = field(default_factory=lambda: ["PER", "LOC", "ORG", "MISC"])
        """types of entities; empty: tags are plain classes"""
        tags: list[str] = field(default_factory=list)
        """plain classes in their order, in place of entities"""
        scheme: Scheme = "bio"
        """tags that are learnt: bio, or bioes, which also marks last and single words"""
        word_column: int = 0
        """column of the word, from 0; negative: from the end"""
        tag_column: int = -1
        """column of the tag"""
        prefix: str = ""
        """text before each word that is no part of it, such as `en:` in WikiANN"""

        def __post_init__(self) -> None:
            """Check that the tags are entities or plain classes."""
            if bool(self.entities) == bool(self.tags):
                raise ValueError("give entities or tags: entities=[] beside tags=[...], or no tags")

    options: Options

    @property
    def facts(self) -> TaskFacts:
        """Facts of the task."""
        options = self.options
        if options.tags:
            return TaskFacts(name=options.task, head="tagging", labels=tuple(options.tags), metrics=("accuracy",))
        labels = scheme_labels(options.entities, options.scheme)
        metrics = ("entity_f1", "strict_entity_f1", "accuracy")
        return TaskFacts(name=options.task, head="tagging", labels=labels, metrics=metrics)

    def open(self, path: Path) -> TaskFile:
        """Return a file with the columns that its first line shows."""
        for sentence in sentence_lines(path, self.limits):
            if lines := [line for line in sentence.lines if not line.startswith(_DOCUMENT)]:
                separator = "\t" if "\t" in lines[0] else None
                columns = _Columns(len(lines[0].split(separator)), separator)
                wanted = self.options.word_column, self.options.tag_column
                if not columns.hold(wanted):
                    raise ConfigurationError(
                        f"{path}: expected a column {wanted[0]} of words and a column {wanted[1]} of tags, got "
                        f"{columns.name}: {lines[0]!r}"
                    )
                return TaskFile(path, columns)
        raise ConfigurationError(f"{path}: expected lines of a word and its tag, got none")

    def read(self, file: TaskFile) -> Iterator[TaggedWords | Rejected]:
        """Yield every sentence of a file."""
        columns: _Columns = file.layout
        document = 0
        for sentence in sentence_lines(file.path, self.limits):
            lines = [line for line in sentence.lines if not line.startswith(_DOCUMENT)]
            document += len(sentence.lines) - len(lines)
            if lines or sentence.damage:
                group = f"document {document}" if document else None
                yield self._to_item(sentence, [columns.split(line) for line in lines], columns, group)

    def row_count(self, file: TaskFile) -> int:
        """Return the number of sentences of a file."""
        return sentence_count(file.path, self.limits, _DOCUMENT)

    def _to_item(
        self, sentence: SentenceLines, rows: Sequence[Sequence[str]], columns: _Columns, group: str | None
    ) -> TaggedWords | Rejected:
        if sentence.damage:
            return Rejected(sentence.damage, sentence.index)
        if any(len(row) != columns.count for row in rows):
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

    def _detail(self, found: str) -> str:
        options = self.options
        known = f"entities=[{', '.join(options.entities)}]" if options.entities else f"tags=[{', '.join(options.tags)}]"
        return f"the column {options.tag_column} holds the {found}; known are those of tasks.reader.{known}"
