"""Texts that become texts: summaries, translations, and any task as T5 words it (arXiv 1910.10683 §2.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass as plain_dataclass
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field
from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.errors import ConfigurationError
from pipeline.files import parse_json
from pipeline.task_readers import Refused, SourceTarget, TaskFacts, TaskFile, TaskReader
from pipeline.task_readers._lines import LINE_REASONS, text_lines

__all__ = ["TextToText"]

Metric: TypeAlias = Literal["exact_match", "bleu", "chrf", "rouge1", "rouge2", "rougeL", "rougeLsum"]


@plain_dataclass(frozen=True)
class _Layout:
    name: str = "JSON lines"
    labelled: bool = True


class TextToText(TaskReader):
    """JSON lines with a source and a target, whose fields are named by dotted paths.

    A target may be a list of accepted texts, of which the first is learnt. A line that is no object, or lacks a field,
    is refused as `fields`, one with an empty text as `empty_text`.

    Example (source `translation.en`, target `translation.de`, prefix `translate English to German: `):
        `{"translation": {"en": "Hello!", "de": "Hallo!"}}` is `translate English to German: Hello!` to `Hallo!`
    """

    VERSION: ClassVar[int] = 1
    reasons: ClassVar[tuple[str, ...]] = (*LINE_REASONS, "blank_line", "fields", "empty_text")

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
        metrics: Annotated[list[Metric], Field(min_length=1)] = field(default_factory=lambda: ["exact_match"])
        """metrics of the task, the first decides: exact_match, bleu, chrf, rouge1, rouge2, rougeL, rougeLsum"""

    options: Options

    @property
    def facts(self) -> TaskFacts:
        """Facts of the task."""
        return TaskFacts(name=self.options.task, head="lm", metrics=tuple(self.options.metrics))

    def open(self, path: Path) -> TaskFile:
        """Return a file whose first line is an object with both fields.

        Raises:
            ConfigurationError: it is not.
        """
        _, first = next(text_lines(path, self.limits), (0, ""))
        found = _object(first) if isinstance(first, str) else None
        missing = [
            name for name in (self.options.source, self.options.target) if found is None or not _texts(found, name)
        ]
        if missing:
            raise ConfigurationError(
                f"{path}: expected JSON lines with the fields {self.options.source} and {self.options.target}, got "
                f"{str(first)[:80]!r} without {', '.join(missing)}"
            )
        return TaskFile(path, _Layout())

    def read(self, file: TaskFile) -> Iterator[SourceTarget | Refused]:
        """Yield every line of a file."""
        for place, line in text_lines(file.path, self.limits):
            if isinstance(line, Refused):
                yield line
            elif not line.strip():
                yield Refused("blank_line", place)
            else:
                yield self._pair(_object(line), place)

    def _pair(self, row: Mapping[str, Any] | None, place: int) -> SourceTarget | Refused:
        sources, targets = (_texts(row or {}, name) for name in (self.options.source, self.options.target))
        if len(sources) != 1 or not targets:
            return Refused("fields", place)
        if not all(text.strip() for text in (*sources, *targets)):
            return Refused("empty_text", place)
        return SourceTarget(sources[0], targets, self.options.prefix, place)


def _object(line: str) -> Mapping[str, Any] | None:
    """Return the object of a line, None for anything else."""
    try:
        found = parse_json(line)
    except ValueError:
        return None
    return found if isinstance(found, Mapping) else None


def _texts(row: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """Return the text of a field, or those of a list; none where it is absent or holds anything else."""
    found: Any = row
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    texts = found if isinstance(found, list) else [found]
    return tuple(texts) if all(isinstance(text, str) for text in texts) else ()
