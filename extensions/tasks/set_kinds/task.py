"""Rows of a labeled task."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from clozeline.extensions.tasks.readers import TASK, TaskMetadata
from clozeline.extensions.tasks.rows import rows_of
from clozeline.pipeline.rows import Ragged, ShardRow
from clozeline.pipeline.set_kinds import Problem, SetKind
from clozeline.pipeline.shards.manifest import ObjectiveRecord


class Task(SetKind):
    """A set of the stage `tasks`: rows with answers, whose meaning the metadata tell."""

    def __init__(self, objective: ObjectiveRecord) -> None:
        self.metadata = TaskMetadata.from_dict(objective.entry()[TASK])
        self.head = self.metadata.head
        self.labels = self.metadata.labels
        self._rows = rows_of(self.head, objective.architecture)
        self.blanks = self._rows.blanks

    def head_setup(self) -> Any:
        from clozeline.extensions.tasks.task_heads import task_head_of

        return task_head_of(self.metadata)

    def open_run(self, run: Path, split: str, folder: Path) -> Any:
        from clozeline.extensions.tasks.task_run import open_task_run

        return open_task_run(run, split, folder)

    def problems(self, columns: Mapping[str, Ragged]) -> Iterator[Problem]:
        return self._rows.problems(self.metadata, columns)

    def describe_answer(self, row: ShardRow) -> dict[str, str]:
        return self._rows.describe_answer(self.metadata, row)
