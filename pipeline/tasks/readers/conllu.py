"""Reader of CoNLL-U, the format of Universal Dependencies: one of its ten columns is the label of a word."""

import re
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Final, Literal

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Layout, Rejected, TaggedWords, TaskFacts, TaskFile, TaskReader, keep_texts
from clozeline.pipeline.tasks.readers._sentence_lines import SentenceLines, sentence_lines

_COLUMNS: Final = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_DOCUMENT: Final = re.compile(r"#\s*newdoc\b")
_WORD: Final = re.compile(r"[1-9][0-9]*")
_ID: Final = re.compile(r"[1-9][0-9]*(-[1-9][0-9]*)?|[0-9]+\.[1-9][0-9]*")
_UPOS: Final = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X"


class Conllu(TaskReader):
    """Words with their part of speech (Universal Dependencies, arXiv 2004.10643).

    Tags belong to syntactic words: the ranges `3-4` of contracted forms and the empty nodes `3.1` are skipped. Lines
    `# newdoc` start documents. Rejected sentences: `fields`, a line without ten columns; `bad_label`, an unknown tag.

    Example:
        `1-2 au`, `1 a ... ADP`, `2 le ... DET` are the words `a le` with the tags `ADP DET`
    """

    @config_class
    class Options:
        task: str = "pos"
        """name of the task and of its folder"""
        column: Literal["upos", "xpos", "deprel"] = "upos"
        """column of the tag"""
        tags: list[str] = field(default_factory=_UPOS.split)
        """classes in order; default: the 17 of upos"""

    options: Options

    @property
    def facts(self) -> TaskFacts:
        options = self.options
        return TaskFacts(name=options.task, head="tagging", labels=tuple(options.tags), metrics=("accuracy",))

    def open(self, path: Path) -> TaskFile:
        """Check that the first word has ten columns."""
        for sentence in sentence_lines(path, self.limits):
            if lines := [line for line in sentence.lines if not line.startswith("#")]:
                if (count := len(lines[0].split("\t"))) != len(_COLUMNS):
                    raise ConfigurationError(
                        f"{path}: expected the {len(_COLUMNS)} columns of CoNLL-U, separated by tabs, got {count}: "
                        f"{lines[0]!r}"
                    )
                return TaskFile(path, Layout("CoNLL-U"))
        raise ConfigurationError(f"{path}: expected sentences in CoNLL-U, got none")

    def read(self, file: TaskFile) -> Iterator[TaggedWords | Rejected]:
        document = 0
        for sentence in sentence_lines(file.path, self.limits):
            document += sum(_DOCUMENT.match(line) is not None for line in sentence.lines)
            words = " ".join(line.split("\t")[1] for line in sentence.lines if "\t" in line and line[0] != "#")
            yield keep_texts(self._to_item(sentence, f"document {document}" if document else None), words)

    def _to_item(self, sentence: SentenceLines, group: str | None) -> TaggedWords | Rejected:
        if sentence.damage:
            return Rejected(sentence.damage, sentence.index)
        rows = [line.split("\t") for line in sentence.lines if not line.startswith("#")]
        if any(len(row) != len(_COLUMNS) or not _ID.fullmatch(row[0]) for row in rows):
            return Rejected("fields", sentence.index)
        rows = [row for row in rows if _WORD.fullmatch(row[0])]
        words = tuple(row[1].strip() for row in rows)
        if not words or not all(words):
            return Rejected("empty_word" if words else "no_words", sentence.index)
        tags = [row[_COLUMNS.index(self.options.column)] for row in rows]
        if unknown := [tag for tag in tags if tag not in self.label_numbers]:
            known = f"tasks.reader.tags=[{', '.join(self.options.tags)}]"
            detail = f"the column {self.options.column} holds the tag {unknown[0]!r}; known are those of {known}"
            return Rejected("bad_label", sentence.index, detail)
        return TaggedWords(words, tuple(self.label_numbers[tag] for tag in tags), sentence.index, group)
