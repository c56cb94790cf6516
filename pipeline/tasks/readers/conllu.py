"""Reader of CoNLL-U, the format of Universal Dependencies: one of its ten columns is the label of a word."""

import re
from collections.abc import Iterator
from dataclasses import field
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, Final, Literal

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Rejected, Row, TaskFile
from clozeline.pipeline.tasks.readers._official_layout import OfficialLayout
from clozeline.pipeline.tasks.readers._task_items import GROUP, keep_texts
from clozeline.pipeline.tasks.readers._text_lines import sentence_lines
from clozeline.pipeline.tasks.readers.labelled import Labelled

_COLUMNS: Final = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_DOCUMENT: Final = re.compile(r"#\s*newdoc\b")
_WORD: Final = re.compile(r"[1-9][0-9]*")
_ID: Final = re.compile(r"[1-9][0-9]*(-[1-9][0-9]*)?|[0-9]+\.[1-9][0-9]*")
_UPOS: Final = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X"


class Conllu(OfficialLayout):
    """Words with their part of speech (Universal Dependencies, arXiv 2004.10643).

    Tags belong to syntactic words: the ranges `3-4` of contracted forms and the empty nodes `3.1` are skipped. Lines
    `# newdoc` start documents. Rejected sentences: `fields`, a line without ten columns; `bad_label`, an unknown tag.

    Example:
        `1-2 au`, `1 a ... ADP`, `2 le ... DET` are the words `a le` with the tags `ADP DET`
    """

    hint: ClassVar[str] = "; tasks.reader.tags=[...] names others"

    @config_class
    class Options:
        task: str = "pos"
        """name of the task and of its folder"""
        column: Literal["upos", "xpos", "deprel"] = "upos"
        """column of the tag"""
        tags: list[str] = field(default_factory=_UPOS.split)
        """classes in order; default: the 17 of upos"""

    options: Options

    @cached_property
    def spec(self) -> Labelled.Options:
        classes = {tag: tag for tag in self.options.tags}
        return Labelled.Options(task=self.options.task, words="words", label="tags", classes=classes)

    def open(self, path: Path) -> TaskFile:
        """Check that the first word has ten columns."""
        for sentence in sentence_lines(path, self.limits):
            if lines := [line for line in sentence.lines if not line.startswith("#")]:
                if (count := len(lines[0].split("\t"))) != len(_COLUMNS):
                    raise ConfigurationError(
                        f"{path}: expected the {len(_COLUMNS)} columns of CoNLL-U, separated by tabs, got {count}: "
                        f"{lines[0]!r}"
                    )
                return TaskFile(path, "CoNLL-U", partial(self._sentences, path))
        raise ConfigurationError(f"{path}: expected sentences in CoNLL-U, got none")

    def _sentences(self, path: Path) -> Iterator[tuple[int, Row | Rejected]]:
        document, column = 0, _COLUMNS.index(self.options.column)
        for sentence in sentence_lines(path, self.limits):
            index, damage = sentence.index, sentence.damage
            document += sum(_DOCUMENT.match(line) is not None for line in sentence.lines)
            rows = [line.split("\t") for line in sentence.lines if not line.startswith("#")]
            if not damage and any(len(row) != len(_COLUMNS) or not _ID.fullmatch(row[0]) for row in rows):
                damage = "fields"
            words = [row for row in rows if _WORD.fullmatch(row[0])]
            if damage or not words:
                text = " ".join(row[1] for row in rows if len(row) > 1)
                yield index, keep_texts(Rejected(damage or "no_words", index), text)
            else:
                group = f"document {document}" if document else None
                tags = [row[column] for row in words]
                yield index, {"words": [row[1].strip() for row in words], "tags": tags, GROUP: group}
