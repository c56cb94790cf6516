"""Open a fine-tuned model with the split to score it on, and check that they fit together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.answer_threshold import read_threshold
from clozeline.extensions.tasks.readers import TaskMetadata, read_task_metadata
from clozeline.extensions.tasks.task_heads import task_head_of
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.pipeline.shards.manifest import folders_beside
from clozeline.tools.runs.data.run_sets import SetPaths, locate_sets, open_first_set
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.configuration.checkpoint import StepChoice
from clozeline.train.data.sets.token_ids import refuse_other_ids

if TYPE_CHECKING:
    from torch import Tensor

    from clozeline.extensions.tasks.task_heads._task_head import TaskHead, TaskModel

_MANIFEST: Final = "manifest.json"


@dataclass(frozen=True)
class TaskRun:
    """A model with a task head, and the splits of a task.

    One split is scored; the training split gives the baselines.

    `threshold` is the margin by which "no answer" must win, if questions may have none.
    """

    trained: TrainedModel
    facts: TaskMetadata
    head: str
    shards: ShardSet
    train: ShardSet
    seed: int
    threshold: float = 0.0
    compute: Callable[[Mapping[str, Tensor]], Tensor] | None = None
    """returns the scores of a batch; None: all layers of the model read it"""

    @cached_property
    def answer(self) -> TaskHead:
        """Meaning of the predictions of the head."""
        return task_head_of(self.facts, self.head)

    @cached_property
    def task(self) -> TaskModel:
        """The model with its batches, as answers read it."""
        from clozeline.extensions.tasks.task_heads._task_head import TaskModel

        trained = self.trained

        def forward(rows: RowBatch) -> tuple[Tensor, dict[str, Tensor]]:
            tensors = self.batch(rows)
            scores = (
                trained.model.logits(tensors)[self.head]
                if self.compute is None
                else self.compute(tensors)
            )
            return scores, tensors

        return TaskModel(
            trained.model,
            trained.tokenizer,
            self.head,
            self.shards.manifest,
            forward,
            self.threshold,
        )

    def metrics(self) -> Mapping[str, float]:
        """Return the metrics of the task over the split."""
        rows = set_rows(self.shards)
        predicted = self.answer.predict(self.task, rows)
        return self.answer.score(self.task, set_rows(self.train), rows, predicted).metrics

    def batch(self, rows: RowBatch) -> dict[str, Tensor]:
        """Return the tensors of some rows of the split."""
        from clozeline.train.data.stream.collate import Collate

        collate = Collate.from_manifest(self.shards.manifest)
        return collate(
            {name: rows.columns[name] for name in collate.columns}, np.ones(len(rows), np.float32)
        )

    def batches(self, size: int) -> Iterator[dict[str, Tensor]]:
        """Yield batches of the split without end, from its first row on."""
        rows = set_rows(self.shards)
        for start in count(0, size):
            yield self.batch(rows.take(np.arange(start, start + size) % len(rows)))


def open_task_run(
    run: Path,
    split: str,
    task: Path | None = None,
    step: StepChoice = None,
    set_paths: SetPaths | None = None,
) -> TaskRun:
    """Open a fine-tuned run, or a folder with a fine-tuned model, and a split of its task.

    `split` is a folder next to the training set, such as `dev_matched`; `task` the folder of the
    task's sets, by default that of the training set. `step` None: the checkpoint that the run would
    resume from.
    """
    trained = TrainedModel.open(run, step)
    paths = set_paths or SetPaths()
    data = None if trained.config is None else locate_sets(run, trained.config.data, paths)
    folder = task

    if folder is None:
        if data is not None:
            first = data.first_set
        else:  # a folder that was made of a run
            first = paths.sets[0] if paths.sets else Path(trained.sets[0].path)
        above = folders_beside(first)
        folder = next((each for each in above if (each / split).is_dir()), above[0])

    if not folder.is_dir():
        raise ConfigurationError(
            f"{folder}: no such folder, expected the sets of the run's task: if they have moved, "
            "say where they are now by data.shards=MANIFEST of the training set"
        )

    shards, facts = open_split(folder, split)
    head = find_head(run, trained.checkpoint.config, facts, shards)
    refuse_other_ids(trained.ids, shards, "data")
    beside = task is not None and (folder / "train" / _MANIFEST).is_file()
    train = open_split(folder, "train")[0] if data is None or beside else open_first_set(run, data)
    seed = 0 if trained.config is None else trained.config.seed
    threshold = read_threshold(run, trained.digest) if facts.unanswerable else 0.0
    return TaskRun(trained, facts, head, shards, train, seed, threshold)


def open_split(folder: Path, split: str) -> tuple[ShardSet, TaskMetadata]:
    """Open a split in the folder of a task's sets."""
    if not os.path.lexists(folder / split / _MANIFEST):
        have = (
            ", ".join(sorted(path.parent.name for path in folder.glob(f"*/{_MANIFEST}"))) or "none"
        )
        missing = f"split={split}: {folder / split / _MANIFEST} is missing"
        raise ConfigurationError(f"{missing}: {folder} holds no such split, but {have}; choose one")

    shards = open_shards(folder / split)
    facts = read_task_metadata(shards.manifest)
    if facts is None:
        raise ConfigurationError(
            f"{shards.path}: its rows have no labels of a task; give a run that was trained on a "
            "set that `clozeline tasks` made"
        )

    return shards, facts


def find_head(source: Path, model: ModelConfig, facts: TaskMetadata, shards: ShardSet) -> str:
    """Return the head of a run or a model folder that answers a task, with the same classes."""
    heads = [name for name, target in model.targets.items() if target == facts.head]
    if not heads:
        raise ConfigurationError(
            f"{source}: the task {facts.name} needs a head {facts.head}, the model has "
            f"{', '.join(model.heads)}: fine-tune it on the task first"
        )

    labels = model.heads[heads[0]].labels
    if facts.labels and labels != facts.labels:
        raise ConfigurationError(
            f"{source}: was trained for the classes {', '.join(labels) or 'without names'}, "
            f"{shards.path} has {', '.join(facts.labels)}: its scores would mean other classes"
        )

    return heads[0]


def set_rows(shards: ShardSet) -> RowBatch:
    """Return all rows of a set."""
    return RowBatch.concatenate([shards.read_block(block) for block in range(len(shards.index))])
