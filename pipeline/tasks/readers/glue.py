"""GLUE: nine tasks on one sentence or on two (arXiv 1804.07461)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.pipeline.tasks.readers import LabeledText, Rejected, TaskFacts, TaskFile, TaskReader
from clozeline.pipeline.tasks.readers._glue_tasks import GLUE_TASKS
from clozeline.pipeline.tasks.readers._json_lines import Object, first_object, json_objects
from clozeline.pipeline.tasks.readers._tables import (
    TABLE_REASONS,
    TableLayout,
    detect_layout,
    match_layout,
    table_rows,
)
from clozeline.pipeline.tasks.readers._text_lines import line_count, text_lines

_HIDDEN: Final = "-1"
"""Label of the rows of test sets in exports of Hugging Face"""


class Glue(TaskReader):
    """Tables of the official layout, by the names of their header; others only where the file shows them.

    Exports of Hugging Face, tables or lines of JSON, have numbers for classes, -1 where there is none: 0 of RTE and
    QNLI is `entailment`, as the numbers of MNLI are in the order of its classes.

    A line with more or fewer fields than the first is refused as `fields`, so are an `empty_text` and a `bad_label`:
    one that is no class of the task (`-` in MNLI), or no number in the range of STS-B. Rows of a file without labels
    are refused as `no_label`.

    Example (sst2):
        `sentence<tab>label`, then `a stirring film<tab>1`
    """

    VERSION: ClassVar[int] = 2
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
        """Return a file with the layout that its first line shows."""
        layouts = GLUE_TASKS[self.options.task].layouts
        _, first = next(text_lines(path, self.limits), (0, ""))
        if not isinstance(first, str) or not first.startswith("{"):
            return TaskFile(path, detect_layout(path, layouts, self.limits))
        headed = [layout for layout in layouts if layout.columns is None]
        columns = list(first_object(path, self.limits, f"JSON lines of {self.options.task}"))
        return TaskFile(path, replace(match_layout(path, headed, columns), objects=True))

    def read(self, file: TaskFile) -> Iterator[LabeledText | Rejected]:
        """Yield every row of a file."""
        layout: TableLayout = file.layout
        if layout.objects:
            for index, found in json_objects(file.path, self.limits):
                yield found if isinstance(found, Rejected) else self._object(found, layout, index)
            return
        columns: list[str] = [] if layout.columns is None else list(layout.columns)
        for index, row in table_rows(file.path, self.limits):
            if isinstance(row, Rejected):
                yield row
            elif not columns:
                columns = row
            elif len(row) != len(columns):
                yield Rejected("fields", index)
            else:
                yield self._labelled(dict(zip(columns, row, strict=True)), layout, index)

    def row_count(self, file: TaskFile) -> int:
        """Return the number of lines of a file, without its header if it has one."""
        layout: TableLayout = file.layout
        return line_count(file.path, self.limits) - (layout.columns is None and not layout.objects)

    def format_lines(self, items: Sequence[LabeledText]) -> Iterator[str]:
        """Yield the lines of a table of the official layout; a task of numbers has no classes to write.

        Raises:
            ConfigurationError: it is one.
        """
        if self.facts.head != "classification":
            yield from super().format_lines(items)
        layouts = GLUE_TASKS[self.options.task].layouts
        layout = next(one for one in layouts if one.has_labels and one.columns is None and not one.also)
        cells = {number: cell for cell, number in layout.cells}
        yield "\t".join((*layout.texts, str(layout.label)))
        for item in items:
            texts = (" ".join(text.split()) for text in item.texts)
            yield "\t".join((*texts, cells[-1 if item.label is None else item.label]))

    def _object(self, found: Object, layout: TableLayout, index: int) -> LabeledText | Rejected:
        """Return the row of a line of JSON; a label that is null is none."""
        if not all(isinstance(found.get(name), str) for name in layout.texts):
            return Rejected("fields", index)
        label = None if layout.label is None else found.get(layout.label)
        cells = {name: found[name] for name in layout.texts}
        return self._labelled({**cells, str(layout.label): _HIDDEN if label is None else str(label)}, layout, index)

    def _labelled(self, row: dict[str, str], layout: TableLayout, index: int) -> LabeledText | Rejected:
        texts = tuple(row[name] for name in layout.texts)
        if layout.label is None:
            return Rejected("no_label", index)
        if not all(text.strip() for text in texts):
            return Rejected("empty_text", index)
        cell = row[layout.label].strip()
        if cell == _HIDDEN and _HIDDEN not in dict(layout.cells):
            return Rejected("no_label", index)
        if self.facts.head == "regression":
            target = self._number(cell)
            expected = f"a number from {self.facts.low:g} to {self.facts.high:g}"
            return (
                self._bad(layout, cell, expected, index) if target is None else LabeledText(texts, None, target, index)
            )
        label = dict(layout.cells).get(cell)
        expected = " or ".join(name for name, _ in layout.cells)
        return self._bad(layout, cell, expected, index) if label is None else LabeledText(texts, label, None, index)

    def _bad(self, layout: TableLayout, cell: str, expected: str, index: int) -> Rejected:
        task = f"the task tasks.reader.task={self.options.task}"
        return Rejected("bad_label", index, f"the column {layout.label} holds {cell!r}, {task} knows {expected}")

    def _number(self, cell: str) -> float | None:
        try:
            number = float(cell)
        except ValueError:
            return None
        return number if math.isfinite(number) and self.facts.low <= number <= self.facts.high else None
