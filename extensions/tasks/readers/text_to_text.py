"""Read text-to-text tasks: summaries, translations, any task of T5 (arXiv 1910.10683 §2.4)."""

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.extensions.tasks.readers import (
    Row,
    RowFile,
    SourceTarget,
    TaskMetadata,
    TaskReader,
    Unfit,
)
from clozeline.extensions.tasks.readers._official_files import texts_at
from clozeline.extensions.tasks.readers._reader import KEYS
from clozeline.pipeline.tables import open_table

Metric: TypeAlias = Literal[
    "exact_match", "bleu", "chrf", "rouge1", "rouge2", "rougeL", "rougeLsum"
]


class TextToTextReader(TaskReader):
    """Tables or JSON lines with named fields for source and target.

    A target may be a list of accepted texts; models are trained on the first. Rejected: `fields`, a
    line that is not an object or lacks a field; `empty_text`.

    Example (source `translation.en`, target `translation.de`, prefix `translate English to German:
    `):
        `{"translation": {"en": "Hello!", "de": "Hallo!"}}` is `translate English to German: Hello!`
        to `Hallo!`
    """

    @config_class
    class Options:
        task: str = "text_to_text"
        """name of the task and of its folder"""
        source: str = "source"
        """path of the source text, with dots between nested fields: document, translation.en"""
        target: str = "target"
        """path of the target text"""
        prefix: str = ""
        """text before each source, which names the task: `summarize: `"""
        suffix: str = ""
        """text after each source, followed by the target of a decoder: `\\nTL;DR:`"""
        columns: list[str] = field(default_factory=list)
        """names of the columns of a CSV or TSV file without a header: [en, de]"""
        metrics: Annotated[list[Metric], Field(min_length=1)] = field(
            default_factory=lambda: ["exact_match"]
        )
        """metrics of the task, main metric first: exact_match, bleu, chrf, rouge1, rouge2, rougeL,
        rougeLsum"""

    options: Options

    @property
    def metadata(self) -> TaskMetadata:
        return TaskMetadata(name=self.options.task, head="lm", metrics=tuple(self.options.metrics))

    def input_columns(self, names: Sequence[str]) -> dict[str, list[str]]:
        options = self.options  # a similarity task compares both sides
        return {"source": [options.source], "text": [options.source], "text_pair": [options.target]}

    def table_form(self) -> tuple[str | None, Sequence[str]]:
        return None, self.options.columns

    def open(self, path: Path) -> RowFile:
        file = open_table(path, self.limits, columns=self.options.columns, by_line=True)
        file.require(self.options.source, self.options.target, keys=KEYS)
        return file

    def item(self, row: Row, index: int) -> SourceTarget:
        sources, targets = (
            texts_at(row, name) for name in (self.options.source, self.options.target)
        )
        if len(sources) != 1 or not targets:
            raise Unfit("fields")
        if not all(text.strip() for text in (*sources, *targets)):
            raise Unfit("empty_text")
        return SourceTarget(
            sources[0], targets, self.options.prefix, index, suffix=self.options.suffix
        )
