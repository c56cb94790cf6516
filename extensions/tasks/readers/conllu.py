"""Read CoNLL-U, the format of Universal Dependencies; one of its ten columns is the label."""

import re
from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.readers import RowFile
from clozeline.extensions.tasks.readers._labels import ClassNames
from clozeline.extensions.tasks.readers._official_files import open_sentences
from clozeline.extensions.tasks.readers._official_layout import OfficialLayout
from clozeline.extensions.tasks.readers.labeled import LabeledReader
from clozeline.pipeline.tables import read_sentences

_COLUMNS: Final = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_DOCUMENT_LINE: Final = re.compile(r"#\s*newdoc\b")
_WORD_ID: Final = re.compile(r"[1-9][0-9]*")
_ROW_ID: Final = re.compile(r"[1-9][0-9]*(-[1-9][0-9]*)?|[0-9]+\.[1-9][0-9]*")
_UPOS_TAGS: Final = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X"


class ConlluReader(OfficialLayout):
    """Words with their part of speech (Universal Dependencies, arXiv 2004.10643).

    Tags belong to syntactic words. Ranges `3-4` of contractions and empty nodes `3.1`
    are skipped. Lines `# newdoc` start documents. Rejected sentences: `fields`, a line without ten
    columns; `bad_label`, an unknown tag.

    Example:
        `1-2 au`, `1 a ... ADP`, `2 le ... DET` are the words `a le` with the tags `ADP DET`
    """

    hint = "; set others by tasks.reader.tags=[...]"

    @config_class
    class Options:
        task: str = "pos"
        """name of the task and of its folder"""
        column: Literal["upos", "xpos", "deprel"] = "upos"
        """column of the tag"""
        tags: ClassNames = field(default_factory=_UPOS_TAGS.split)
        """classes in order; default: the 17 of upos"""

    options: Options

    @cached_property
    def spec(self) -> LabeledReader.Options:
        classes = {tag: tag for tag in self.options.tags}
        return LabeledReader.Options(
            task=self.options.task, words="words", label="tags", classes=classes
        )

    def open(self, path: Path) -> RowFile:
        """Check that the first word has ten columns."""
        if not (first := self._first_word(path)):
            raise ConfigurationError(f"{path}: expected sentences in CoNLL-U, got none")
        cells = first.split("\t")
        if len(cells) != len(_COLUMNS):
            raise ConfigurationError(
                f"{path}: expected the {len(_COLUMNS)} columns of CoNLL-U, separated by tabs, got "
                f"{len(cells)}: {first!r}"
            )
        return open_sentences(path, self.limits, "CoNLL-U", _DOCUMENT_LINE, self._word)

    def open_unlabeled(self, path: Path) -> RowFile:
        """Open a file with ten columns, the first of which is the number of a word."""
        first = self._first_word(path)
        if not _ROW_ID.fullmatch(first.partition("\t")[0]):
            raise ConfigurationError(
                f"{path}: expected numbered words, as in CoNLL-U, got {first!r}"
            )
        return self.open(path)

    def _first_word(self, path: Path) -> str:
        rows = (line for sentence in read_sentences(path, self.limits) for line in sentence.lines)
        return next((line for line in rows if not line.startswith("#")), "")

    def _word(self, line: str) -> Sequence[str]:
        cells = line.split("\t")
        if line.startswith("#"):
            return ()
        if len(cells) != len(_COLUMNS) or not _ROW_ID.fullmatch(cells[0]):
            return ["".join(cells[1:2])]
        return (
            (cells[1].strip(), cells[_COLUMNS.index(self.options.column)])
            if _WORD_ID.fullmatch(cells[0])
            else ()
        )
