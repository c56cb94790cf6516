"""GLUE: nine tasks on one sentence or on two (arXiv 1804.07461)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.task_readers import LabelledText, Refused, TaskFacts, TaskFile, TaskReader
from pipeline.task_readers._glue_tasks import GLUE_TASKS
from pipeline.task_readers._tables import TABLE_REASONS, TableLayout, found_layout, table_rows

__all__ = ["Glue"]


class Glue(TaskReader):
    """Tables of the official layout, by the names of their header; others only where the file shows them.

    A line with more or fewer fields than the first is refused as `fields`, so are an `empty_text` and a `bad_label`:
    one that is no class of the task (`-` in MNLI), or no number in the range of STS-B. Rows of a file without labels
    are refused as `no_label`.

    Example (sst2):
        `sentence<tab>label`, then `a stirring film<tab>1`
    """

    VERSION: ClassVar[int] = 1
    reasons: ClassVar[tuple[str, ...]] = (*TABLE_REASONS, "empty_text", "bad_label", "no_label")

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """The task."""

        task: Literal["cola", "sst2", "mrpc", "qqp", "stsb", "mnli", "qnli", "rte", "wnli"]
        """task of the collection"""

    options: Options

    @property
    def facts(self) -> TaskFacts:
        """Facts of the task."""
        return GLUE_TASKS[self.options.task].facts

    def open(self, path: Path) -> TaskFile:
        """Return a file with the layout that its first line shows.

        Raises:
            ConfigurationError: it has none of the task's layouts.
        """
        return TaskFile(path, found_layout(path, GLUE_TASKS[self.options.task].layouts, self.limits))

    def read(self, file: TaskFile) -> Iterator[LabelledText | Refused]:
        """Yield every row of a file."""
        layout: TableLayout = file.layout
        columns: list[str] = [] if layout.columns is None else list(layout.columns)
        for place, row in table_rows(file.path, self.limits):
            if isinstance(row, Refused):
                yield row
            elif not columns:
                columns = row
            elif len(row) != len(columns):
                yield Refused("fields", place)
            else:
                yield self._labelled(dict(zip(columns, row, strict=True)), layout, place)

    def written(self, items: Sequence[LabelledText]) -> Iterator[str]:
        """Yield the lines of a table of the official layout; a task of numbers has no classes to write.

        Raises:
            ConfigurationError: it is one.
        """
        if self.facts.head != "classification":
            yield from super().written(items)
        layouts = GLUE_TASKS[self.options.task].layouts
        layout = next(one for one in layouts if one.labelled and one.columns is None and not one.also)
        cells = {number: cell for cell, number in layout.cells}
        yield "\t".join((*layout.texts, str(layout.label)))
        for item in items:
            texts = (" ".join(text.split()) for text in item.texts)
            yield "\t".join((*texts, cells[-1 if item.label is None else item.label]))

    def _labelled(self, row: dict[str, str], layout: TableLayout, place: int) -> LabelledText | Refused:
        texts = tuple(row[name] for name in layout.texts)
        if layout.label is None:
            return Refused("no_label", place)
        if not all(text.strip() for text in texts):
            return Refused("empty_text", place)
        cell = row[layout.label].strip()
        if self.facts.head == "regression":
            target = self._number(cell)
            return Refused("bad_label", place) if target is None else LabelledText(texts, None, target, place)
        label = dict(layout.cells).get(cell)
        return Refused("bad_label", place) if label is None else LabelledText(texts, label, None, place)

    def _number(self, cell: str) -> float | None:
        try:
            number = float(cell)
        except ValueError:
            return None
        return number if math.isfinite(number) and self.facts.low <= number <= self.facts.high else None
