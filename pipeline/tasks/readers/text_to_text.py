"""Reader of text-to-text tasks: summaries, translations, any task of T5 (arXiv 1910.10683 §2.4)."""

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Rejected, Row, SourceTarget, TaskFacts, TaskFile, TaskReader, Unfit
from clozeline.pipeline.tasks.readers._column_files import open_table, texts_at
from clozeline.pipeline.tasks.readers._text_lines import align_lines, text_lines

Metric: TypeAlias = Literal["exact_match", "bleu", "chrf", "rouge1", "rouge2", "rougeL", "rougeLsum"]


class TextToText(TaskReader):
    """Tables or JSON lines with a source and a target, whose fields are named; or two files of aligned lines.

    A target may be a list of accepted texts; models are trained on the first. Rejected: `fields`, a line that is not an
    object or lacks a field; `empty_text`; of two files `unaligned`, a line of the longer one.

    Example (source `translation.en`, target `translation.de`, prefix `translate English to German: `):
        `{"translation": {"en": "Hello!", "de": "Hallo!"}}` is `translate English to German: Hello!` to `Hallo!`

    Example (source `en`, target `de`):
        `Hello!` in train.en and `Hallo!` in train.de
    """

    @config_class
    class Options:
        task: str = "text_to_text"
        """name of the task and of its folder"""
        source: str = "source"
        """path of the source text, with dots between nested fields: document, translation.en; or the extension of a
        file of texts: en, of train.en or train.en.gz"""
        target: str = "target"
        """path of the target text, or extension of the file of targets in the same folder"""
        prefix: str = ""
        """text before each source, which names the task: `summarize: `"""
        suffix: str = ""
        """text after each source, after which a decoder starts the target: `\\nTL;DR:`"""
        columns: list[str] = field(default_factory=list)
        """names of the columns of a CSV or TSV file without a header: [en, de]"""
        metrics: Annotated[list[Metric], Field(min_length=1)] = field(default_factory=lambda: ["exact_match"])
        """metrics of the task, main metric first: exact_match, bleu, chrf, rouge1, rouge2, rougeL, rougeLsum"""

    options: Options

    @property
    def facts(self) -> TaskFacts:
        return TaskFacts(name=self.options.task, head="lm", metrics=tuple(self.options.metrics))

    def input_columns(self, names: Sequence[str]) -> dict[str, list[str]]:
        return {"source": [self.options.source]}

    def open(self, path: Path) -> TaskFile:
        """Open a source file with its target file, or a table of both."""
        source, target = self.options.source, self.options.target
        if (targets := self._targets_of(path)) is None:
            file = open_table(path, self.limits, columns=self.options.columns, by_line=True)
            file.require(source, target)
            return file
        if not targets.is_file():
            raise ConfigurationError(f"{path}: expected the file {targets.name} with the targets in the same folder")
        return TaskFile(path, "two files", partial(self._aligned, path, targets), others=(targets,))

    def _targets_of(self, path: Path) -> Path | None:
        """Return the file of targets; None for a table."""
        first, *endings = path.name.split(".")
        if self.options.source not in endings:
            return None
        renamed = [self.options.target if ending == self.options.source else ending for ending in endings]
        return path.with_name(".".join([first, *renamed]))

    def _aligned(self, path: Path, targets: Path) -> Iterator[tuple[int, Row | Rejected]]:
        pairs = align_lines(text_lines(path, self.limits), text_lines(targets, self.limits))
        for index, pair in enumerate(pairs):
            yield index, pair if isinstance(pair, Rejected) else {
                self.options.source: pair[0].strip(), self.options.target: pair[1].strip()
            }  # fmt: skip

    def item(self, row: Row, index: int) -> SourceTarget:
        sources, targets = (texts_at(row, name) for name in (self.options.source, self.options.target))
        if len(sources) != 1 or not targets:
            raise Unfit("fields")
        if not all(text.strip() for text in (*sources, *targets)):
            raise Unfit("empty_text")
        return SourceTarget(sources[0], targets, self.options.prefix, index, suffix=self.options.suffix)
