"""Rows of a labeled task."""

import json
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
        self.classes = len(self.metadata.labels)
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
        facts = self.metadata
        if "label" in row.columns and len(row["label"]) == 1:
            number = int(row["label"][0])
            return {"label": f"{number}, {facts.labels[number]!r} of {facts.name}"}

        if "labels" in row.columns:
            names = [
                name for name, has in zip(facts.labels, row["labels"].tolist(), strict=True) if has
            ]
            return {"labels": f"{', '.join(names) or 'none'} of {facts.name}"}

        if "target" in row.columns and len(row["target"]) == 1:
            target = float(row["target"][0])
            return {"target": f"{target:g}, from {facts.low:g} to {facts.high:g} in {facts.name}"}

        if "choice" in row.columns:
            return {
                "choice": f"{int(row['choice'][0])} of {len(row['choice_starts'])}, numbered from 0"
            }

        if "tags" in row.columns:
            record = json.loads(row["record"].tobytes())
            tagged = zip(record["words"], record["tags"], strict=True)
            return {"tags": " ".join(f"{word}/{facts.labels[tag]}" for word, tag in tagged)}

        if "answer_span" in row.columns:
            record = json.loads(row["record"].tobytes())
            first, last = row["offsets"].reshape(-1, 2)[row["answer_span"].astype(int)].tolist()
            answer = record["context"][first[0] : last[1]]
            return {
                "answer": repr(answer) if answer else f"none in this window, of {record['answers']}"
            }

        return {}
