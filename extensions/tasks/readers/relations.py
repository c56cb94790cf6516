"""Read relations: sentences with two marked entities, and the class of their relation."""

from collections.abc import Iterator
from dataclasses import field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from clozeline.configuration.config import config_class
from clozeline.extensions.tasks.readers import Rejected, Row, RowFile
from clozeline.extensions.tasks.readers._labels import as_texts
from clozeline.extensions.tasks.readers._official_layout import OfficialLayout
from clozeline.extensions.tasks.readers._reader import KEYS
from clozeline.extensions.tasks.readers.labeled import LabeledReader
from clozeline.pipeline.ingest.readers._rows import value_at
from clozeline.pipeline.tables import attach_texts, open_table


class RelationsReader(OfficialLayout):
    """Sentences in which marks surround two entities, as in R-BERT (arXiv 1905.08284).

    A sentence is a list of words, which the places of an entity count; the default columns are
    those of TACRED (Zhang et al. 2017). Sentences that already have marks, such as SemEval's <e1>,
    are texts for the reader `labeled`. Reasons for rejection: `fields`, also for a place outside
    the sentence; `empty_text`; `no_label`; `bad_label`.

    Example:
        `{"token": ["Ada", "met", "Bob"], "subj_start": 0, "subj_end": 0, "obj_start": 2, "obj_end":
        2, "relation": "met"}` is `$ Ada $ met # Bob #` with the class `met`
    """

    @config_class
    class Options:
        task: str = "relations"
        """name of the task and of its folder"""
        text: str = "token"
        """column of the sentence, a list of words"""
        first: tuple[str, str] = ("subj_start", "subj_end")
        """columns of the start and end of the first entity, from 0"""
        second: tuple[str, str] = ("obj_start", "obj_end")
        """columns of the start and end of the second entity"""
        last_included: bool = True
        """whether an end is the place of the last word, or the place after it"""
        label: str = "relation"
        """column of the class"""
        classes: Annotated[list[str] | dict[str, str], BeforeValidator(as_texts)] = field(
            default_factory=list
        )
        """names of the classes in order; empty: taken from the training rows"""

    @cached_property
    def spec(self) -> LabeledReader.Options:
        options = self.options
        return LabeledReader.Options(
            task=options.task,
            text=[options.text],
            label=options.label,
            classes=options.classes,
        )

    def open(self, path: Path) -> RowFile:
        options = self.options
        file = open_table(path, self.limits)
        file.require(options.text, *options.first, *options.second, keys=KEYS)
        return replace(file, rows=partial(self._marked, file))

    def _marked(self, file: RowFile) -> Iterator[tuple[int, Row | Rejected]]:
        for index, row in file.rows():
            if isinstance(row, Rejected):
                yield index, row
                continue
            text = self._mark(row)
            rejected = attach_texts(Rejected("fields", index), row)
            yield index, rejected if text is None else {**row, self.options.text: text}

    def _mark(self, row: Row) -> str | None:
        """Return the sentence with marks; None if an entity is not in it."""
        options = self.options
        words = value_at(row, options.text)
        if not isinstance(words, list):
            return None
        words = [*map(str, words)]
        added = []
        for mark, columns in (("$", options.first), ("#", options.second)):
            start, end = (value_at(row, name) for name in columns)
            if not (isinstance(start, int) and isinstance(end, int)):
                return None
            end += options.last_included
            if not 0 <= start < end <= len(words):
                return None
            added += [(start, mark), (end, mark)]
        for place, mark in sorted(added, reverse=True):
            words.insert(place, mark)
        return " ".join(words)
