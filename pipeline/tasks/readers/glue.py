"""Reader of GLUE: nine tasks on a sentence or a pair of sentences (arXiv 1804.07461)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final, Literal

from clozeline.configuration.config import config_class
from clozeline.pipeline.tasks.readers import (
    LabeledText,
    Rejected,
    TaskFacts,
    TaskFile,
    TaskItem,
    TaskReader,
    keep_texts,
)
from clozeline.pipeline.tasks.readers._glue_tasks import GLUE_TASKS
from clozeline.pipeline.tasks.readers._json_lines import first_object, json_objects
from clozeline.pipeline.tasks.readers._tables import TableLayout, detect_layout, match_layout, table_rows
from clozeline.pipeline.tasks.readers._text_lines import parse_score, text_lines

_HIDDEN: Final = "-1"
"""Label of test rows in Hugging Face exports."""


class Glue(TaskReader):
    """Tables in the official layout, or Hugging Face exports as tables or JSON lines.

    Exports hold class indices, -1 for none; 0 is `entailment` in RTE, QNLI and MNLI. Rejected: `fields`, a line with
    another number of fields; `empty_text`; `bad_label`, not a class of the task (`-` in MNLI) or not a score of STS-B;
    `no_label`, a row of a file without labels.

    Example (sst2):
        `sentence<tab>label`, then `a stirring film<tab>1`
    """

    VERSION: ClassVar[int] = 2

    @config_class
    class Options:
        task: Literal["cola", "sst2", "mrpc", "qqp", "stsb", "mnli", "qnli", "rte", "wnli"]
        """task of the collection"""

    options: Options

    @property
    def facts(self) -> TaskFacts:
        return GLUE_TASKS[self.options.task].facts

    def input_columns(self, names: Sequence[str]) -> dict[str, list[str]]:
        layouts = GLUE_TASKS[self.options.task].layouts
        fitting = [layout.texts for layout in layouts if set(layout.texts) <= {*names}] or [layouts[-1].texts]
        return {key: [name] for key, name in zip(("text", "text_pair"), fitting[0], strict=False)}

    def open(self, path: Path) -> TaskFile:
        layouts = GLUE_TASKS[self.options.task].layouts
        _, first = next(text_lines(path, self.limits), (0, ""))
        if not isinstance(first, str) or not first.startswith("{"):
            return TaskFile(path, detect_layout(path, layouts, self.limits))
        with_header = [layout for layout in layouts if layout.columns is None]
        columns = list(first_object(path, self.limits, f"JSON lines of {self.options.task}"))
        return TaskFile(path, replace(match_layout(path, with_header, columns), objects=True))

    def read(self, file: TaskFile) -> Iterator[TaskItem | Rejected]:
        return self.labeled_texts(file)

    def labeled_texts(self, file: TaskFile) -> Iterator[LabeledText | Rejected]:
        """Yield every row of a file."""
        layout: TableLayout = file.layout
        if layout.objects:
            for index, line in json_objects(file.path, self.limits):
                if isinstance(line, Rejected):
                    yield line
                elif not all(isinstance(line.get(name), str) for name in layout.texts):
                    yield keep_texts(Rejected("fields", index), line)
                else:
                    # a null label is missing
                    label = None if layout.label is None else line.get(layout.label)
                    cells = {name: line[name] for name in layout.texts}
                    cells[str(layout.label)] = _HIDDEN if label is None else str(label)
                    yield keep_texts(self._parse(cells, layout, index), line)
            return
        columns: list[str] = [] if layout.columns is None else list(layout.columns)
        for index, row in table_rows(file.path, self.limits):
            if isinstance(row, Rejected):
                yield row
            elif not columns:
                columns = row
            elif len(row) != len(columns):
                yield keep_texts(Rejected("fields", index), row)
            else:
                yield keep_texts(self._parse(dict(zip(columns, row, strict=True)), layout, index), row)

    def format_lines(self, items: Sequence[LabeledText]) -> Iterator[str]:
        """Yield the lines of a table in the official layout; ConfigurationError for a regression task."""
        if self.facts.head != "classification":
            yield from super().format_lines(items)
        layouts = GLUE_TASKS[self.options.task].layouts
        layout = next(each for each in layouts if each.has_labels and each.columns is None and not each.also)
        cells = {number: cell for cell, number in layout.cells}
        yield "\t".join((*layout.texts, str(layout.label)))
        for item in items:
            texts = (" ".join(text.split()) for text in item.texts)
            yield "\t".join((*texts, cells[-1 if item.label is None else item.label]))

    def _parse(self, row: dict[str, str], layout: TableLayout, index: int) -> LabeledText | Rejected:
        texts = tuple(row[name] for name in layout.texts)
        if layout.label is None:
            return Rejected("no_label", index)
        if not all(text.strip() for text in texts):
            return Rejected("empty_text", index)
        cell = row[layout.label].strip()
        if cell == _HIDDEN and _HIDDEN not in dict(layout.cells):
            return Rejected("no_label", index)
        label, target = dict(layout.cells).get(cell), None
        expected = " or ".join(name for name, _ in layout.cells)
        facts = GLUE_TASKS[self.options.task].facts
        if facts.head == "regression":
            target = parse_score(cell, facts.low, facts.high)
            expected = f"a number from {facts.low:g} to {facts.high:g}"
        if label is None and target is None:
            task = f"the task tasks.reader.task={self.options.task}"
            return Rejected("bad_label", index, f"the column {layout.label} holds {cell!r}, {task} knows {expected}")
        return LabeledText(texts, label, target, index)
