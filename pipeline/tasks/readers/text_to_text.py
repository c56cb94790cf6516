"""Texts that become texts: summaries, translations, and any task as T5 words it (arXiv 1910.10683 §2.4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.pipeline.tasks.readers import Layout, Rejected, SourceTarget, TaskFacts, TaskFile, TaskReader
from clozeline.pipeline.tasks.readers._json_lines import (
    OBJECT_REASONS,
    Object,
    json_objects,
    require_fields,
    texts_in,
)

Metric: TypeAlias = Literal["exact_match", "bleu", "chrf", "rouge1", "rouge2", "rougeL", "rougeLsum"]


class TextToText(TaskReader):
    """JSON lines with a source and a target, whose fields are named by dotted paths.

    A target may be a list of accepted texts, of which the first is learnt. A line that is no object, or lacks a field,
    is refused as `fields`, one with an empty text as `empty_text`.

    Example (source `translation.en`, target `translation.de`, prefix `translate English to German: `):
        `{"translation": {"en": "Hello!", "de": "Hallo!"}}` is `translate English to German: Hello!` to `Hallo!`
    """

    VERSION: ClassVar[int] = 1
    reasons: ClassVar[tuple[str, ...]] = (*OBJECT_REASONS, "empty_text")

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """The task and its fields."""

        task: str = "text_to_text"
        """name of the task, and of the folder of its sets"""
        source: str = "source"
        """field of the given text, with dots between the names of nested ones: document, translation.en"""
        target: str = "target"
        """field of the text that it becomes"""
        prefix: str = ""
        """text before each source, which names the task: `summarize: `"""
        suffix: str = ""
        """text after each source, where a decoder begins the target: `\\nTL;DR:`"""
        metrics: Annotated[list[Metric], Field(min_length=1)] = field(default_factory=lambda: ["exact_match"])
        """metrics of the task, the first decides: exact_match, bleu, chrf, rouge1, rouge2, rougeL, rougeLsum"""

    options: Options

    @property
    def facts(self) -> TaskFacts:
        """Facts of the task."""
        return TaskFacts(name=self.options.task, head="lm", metrics=tuple(self.options.metrics))

    def open(self, path: Path) -> TaskFile:
        """Return a file whose first line is an object with both fields."""
        require_fields(path, self.limits, self.options.source, self.options.target)
        return TaskFile(path, Layout("JSON lines"))

    def read(self, file: TaskFile) -> Iterator[SourceTarget | Rejected]:
        """Yield every line of a file."""
        for index, row in json_objects(file.path, self.limits):
            yield row if isinstance(row, Rejected) else self._pair(row, index)

    def _pair(self, row: Object, index: int) -> SourceTarget | Rejected:
        sources, targets = (texts_in(row, name) for name in (self.options.source, self.options.target))
        if len(sources) != 1 or not targets:
            return Rejected("fields", index)
        if not all(text.strip() for text in (*sources, *targets)):
            return Rejected("empty_text", index)
        return SourceTarget(sources[0], targets, self.options.prefix, index, suffix=self.options.suffix)
