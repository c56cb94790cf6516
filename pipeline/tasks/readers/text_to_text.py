"""Reader of text-to-text tasks in JSON lines: summaries, translations, any task of T5 (arXiv 1910.10683 §2.4)."""

from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.tasks.readers import Layout, Rejected, SourceTarget, TaskFacts, TaskFile, TaskReader, keep_texts
from clozeline.pipeline.tasks.readers._json_lines import json_objects, require_fields, texts_in

Metric: TypeAlias = Literal["exact_match", "bleu", "chrf", "rouge1", "rouge2", "rougeL", "rougeLsum"]


class TextToText(TaskReader):
    """JSON lines with a source and a target, whose fields are named by dotted paths.

    A target may be a list of accepted texts; models are trained on the first. Rejected: `fields`, a line that is not an
    object or lacks a field; `empty_text`.

    Example (source `translation.en`, target `translation.de`, prefix `translate English to German: `):
        `{"translation": {"en": "Hello!", "de": "Hallo!"}}` is `translate English to German: Hello!` to `Hallo!`
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
        """text after each source, after which a decoder starts the target: `\\nTL;DR:`"""
        metrics: Annotated[list[Metric], Field(min_length=1)] = field(default_factory=lambda: ["exact_match"])
        """metrics of the task, main metric first: exact_match, bleu, chrf, rouge1, rouge2, rougeL, rougeLsum"""

    options: Options

    @property
    def facts(self) -> TaskFacts:
        return TaskFacts(name=self.options.task, head="lm", metrics=tuple(self.options.metrics))

    def input_columns(self, names: Sequence[str]) -> dict[str, list[str]]:
        return {"source": [self.options.source]}

    def open(self, path: Path) -> TaskFile:
        require_fields(path, self.limits, self.options.source, self.options.target)
        return TaskFile(path, Layout("JSON lines"))

    def read(self, file: TaskFile) -> Iterator[SourceTarget | Rejected]:
        for index, row in json_objects(file.path, self.limits):
            if isinstance(row, Rejected):
                yield row
                continue
            sources, targets = (texts_in(row, name) for name in (self.options.source, self.options.target))
            if len(sources) != 1 or not targets:
                yield keep_texts(Rejected("fields", index), row)
            elif not all(text.strip() for text in (*sources, *targets)):
                yield keep_texts(Rejected("empty_text", index), row)
            else:
                yield SourceTarget(sources[0], targets, self.options.prefix, index, suffix=self.options.suffix)
