"""Fine-tune on several tasks in sequence, with methods against forgetting.

Each task starts from the run of the task before it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal, TypeAlias, get_args

import torch
from pydantic import Field

from clozeline.command_line import OtherKeys
from clozeline.configuration.config import (
    ONE_OR_MORE,
    config_class,
    config_file,
    load_config,
)
from clozeline.errors import ConfigurationError, plural
from clozeline.extensions.evaluation.heldout_score import heldout_score
from clozeline.extensions.tasks.finetuning_scores import mean_text
from clozeline.extensions.tasks.readers import read_task_metadata
from clozeline.files import publish_json
from clozeline.model.build import Model
from clozeline.pipeline.shards import open_shards
from clozeline.terminal import align_rows
from clozeline.tools.command import Natural, OutputPath, Positive, UserPath
from clozeline.tools.options import RunArgument
from clozeline.tools.start.multirun.runner import PlannedCommand, read_result, training_step
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.configuration.config import with_absolute_paths
from clozeline.train.configuration.data import DataConfig
from clozeline.train.data.sets.datasets import heldout_paths

Method: TypeAlias = Literal["plain", "replay", "ewc", "l2_sp"]
Matrix: TypeAlias = Sequence[Sequence[float | None]]
"""[stages, tasks]; None where a task cannot be scored yet"""


@config_class
class ForgettingOptions(RunArgument):
    """The run that starts the sequence, its tasks and methods."""

    tasks: Annotated[list[Path], ONE_OR_MORE, Field(min_length=1)]
    """YAML files of tasks in learning order, each with {name, shards, heldout, config}"""
    method: Annotated[list[Method], ONE_OR_MORE, Field(min_length=1)] = Field(
        default_factory=lambda: list[Method](get_args(Method)),
        description="plain, replay, ewc, l2_sp",
    )
    output: OutputPath
    """folder for all runs and scores"""
    seeds: Positive = 1
    """runs per method, with the seeds 0, 1, ...; can be increased later"""
    learned: Natural = 0
    """number of leading tasks that RUN has already learned"""
    replay: Annotated[float, Field(gt=0, lt=1)] = 0.25
    """replay: total share of rows from earlier tasks"""
    strength: Annotated[float, Field(ge=0)] = 100.0
    """ewc: factor of the Fisher information"""
    alpha: Annotated[float, Field(ge=0)] = 0.1
    """l2_sp: factor of the squared distance"""
    rows: Positive = 256
    """ewc: examples per task for the Fisher information"""
    heldout_rows: Positive | None = None
    """score only the first rows of each held-out set; null: all"""
    words: Annotated[tuple[str, ...], OtherKeys("keys of the training")] = ()


def outcome(
    matrix: Matrix, names: Sequence[str], learned: Sequence[int], rising: Sequence[bool]
) -> dict[str, float]:
    """Return the figures of a matrix.

    `forgetting` of each task learned before the last stage: above 0 it is worse than before;
    `backward transfer`, the mean change of these tasks since they were learned: above 0 they are
    better; and the score of the last task. `learned` is the ascending stage at which each task was
    learned, the last one at the last stage; `rising` tells whether higher scores are better.

    Example (two tasks; the first is at 0.9, and at 0.7 after the second):
        >>> outcome([[0.5, 0.5], [0.9, 0.5], [0.7, 0.8]], ["a", "b"], [1, 2], [True, True])
        {'forgetting of a': 0.2, 'backward transfer': -0.2, 'last task': 0.8}
    """
    end = len(matrix) - 1
    figures: dict[str, float] = {}
    changes = []

    for task, (name, stage) in enumerate(zip(names, learned, strict=True)):
        scores = [score for row in matrix[stage:] if (score := row[task]) is not None]
        signed = [score if rising[task] else -score for score in scores]
        if stage < end:
            figures[f"forgetting of {name}"] = round(max(signed[:-1]) - signed[-1], 12)
            changes.append(signed[-1] - signed[0])
        else:
            last = scores[-1]

    transfer = {"backward transfer": round(fmean(changes), 12)} if changes else {}
    return figures | transfer | {"last task": last}


def summary_lines(
    summaries: Mapping[str, Any], names: Sequence[str], stages: Sequence[str], kinds: Sequence[str]
) -> Iterator[str]:
    """Yield the matrix of each method, averaged over seeds, then one line of figures per method."""
    for method, of_method in summaries.items():
        yield f"{method}, {plural(len(of_method['matrices']), 'seed')}"
        table = [["", *(f"{name} ({kind})" for name, kind in zip(names, kinds, strict=True))]]
        for stage, *rows in zip(stages, *of_method["matrices"], strict=True):
            scores = zip(*rows, strict=True)
            table.append([stage, *("-" if None in of else f"{fmean(of):.4f}" for of in scores)])
        yield from (f"  {line}" for line in align_rows(table, right=True))

    for method, of_method in summaries.items():
        figures = of_method["figures"]
        texts = (f"{name} {mean_text([of[name] for of in figures], 4)}" for name in figures[0])
        yield f"{method:<8}{', '.join(texts)}"


@config_class
class SequenceTask:
    """A task: its name, its sets, and how it is trained."""

    name: str
    """name of the task, in folders and tables"""
    shards: UserPath
    """training set"""
    heldout: UserPath | None = None
    """set to score; default: heldout or dev next to the training set"""
    config: str | None = None
    """training configuration, a file or recipe:NAME; default: that of the initial run"""

    @classmethod
    def read(cls, file: Path) -> "SequenceTask":
        """Return the task of a YAML file."""
        task: SequenceTask = with_absolute_paths(
            load_config(cls, file)
        )  # the trainings start elsewhere
        data = DataConfig(shards=task.shards, heldout=task.heldout)
        heldout = next(iter(heldout_paths(data).values()), None)
        if heldout is None:
            raise ConfigurationError(
                f"{file}: heldout: expected a set, got none, and no heldout or dev next to "
                f"{task.shards}"
            )
        config = task.config and str(config_file(task.config, "train.yaml").resolve())
        return replace(task, heldout=heldout, config=config)

    @property
    def signature(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Its heads and class names: tasks with the same signature share their heads."""
        manifest = open_shards(self.shards).manifest
        metadata = read_task_metadata(manifest)
        return (
            () if manifest.objective is None else manifest.objective.heads,
            () if metadata is None else metadata.labels,
        )

    def score(self, model: Model, rows: int | None) -> tuple[str, float]:
        """Return the kind of score, and the score of a model on the held-out rows."""
        assert self.heldout is not None, "as it was read"
        return heldout_score(model, open_shards(self.heldout), rows)


@dataclass(frozen=True)
class TaskSequence:
    """Tasks in learning order, and their runs.

    The initial run has learned the first `options.learned` tasks.
    """

    options: ForgettingOptions
    tasks: Sequence[SequenceTask]

    @classmethod
    def read(cls, options: ForgettingOptions) -> "TaskSequence":
        """Return the sequence of a command with absolute paths; refuse one that does not fit."""
        tasks = [SequenceTask.read(path) for path in options.tasks]
        if options.learned >= len(tasks):
            raise ConfigurationError(
                f"learned: expected fewer than the {len(tasks)} tasks, got {options.learned}"
            )
        names = [task.name for task in tasks]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ConfigurationError(f"tasks: expected different names, got '{twice[0]}' twice")
        if "replay" in options.method and len({task.signature for task in tasks}) > 1:
            listed = "; ".join(
                f"{task.name}: {' '.join(sum(task.signature, ()))}" for task in tasks
            )
            raise ConfigurationError(
                f"method=replay: expected tasks of the same heads and classes, got {listed}"
            )
        return cls(options, tasks)

    def runs(self, method: Method, seed: int) -> list[Path]:
        """Return the initial run, and that of each task; all methods share the first task's."""
        folder = self.options.output / f"seed-{seed}"
        return [self.options.run] + [
            folder / (method if number else "first") / task.name
            for number, task in enumerate(self.tasks)
            if number >= self.options.learned
        ]

    def scores(self, run: Path) -> Path:
        """Return the file with the scores of a run."""
        if run == self.options.run:
            return self.options.output / "scores" / "before.json"
        place = run.relative_to(self.options.output)
        return self.options.output / "scores" / place.with_name(f"{place.name}.json")

    def steps(self, method: Method, seed: int) -> Iterator[PlannedCommand]:
        """Yield the commands of a method: a training for each task, and what it needs."""
        runs = self.runs(method, seed)

        for stage, run in enumerate(runs[1:], 1):
            number = self.options.learned + stage - 1
            words = self._words(method, seed, number, runs[stage - 1])
            if number and method == "ewc":
                yield from self._fisher_steps(runs[:stage], number)
            config = Path(self.tasks[number].config or self.options.run / "config.yaml")
            results = {self.scores(run): partial(self.write_scores, runs[: stage + 1])}
            yield training_step(config, run, [*words, *self.options.words], results)

    def results(self, method: Method, seed: int) -> list[dict[str, Any]]:
        """Return the scores after each stage, and their kinds."""
        return [read_result(self.scores(run)) for run in self.runs(method, seed)]

    def _words(self, method: Method, seed: int, number: int, before: Path) -> list[str]:
        """Return the words of the training of a task, which starts from the run `before`."""
        task = self.tasks[number]
        old = self.tasks[:number]
        options = self.options
        words: dict[str, object] = {"model.init_from": before, "data.shards": task.shards}
        words |= {"seed": seed, "data.seed": seed, "data.heldout": task.heldout}

        if task.config is None:  # reset the keys that only concern the first run
            words |= dict.fromkeys(("init_parts", "data.weights", "data.phases"), "[]")
            words |= dict.fromkeys(("regularizer", "schedule.steps"), "null")

        if old and method == "replay":
            paths = [str(earlier.shards) for earlier in (task, *old)]
            weights = [1 - options.replay, *[options.replay / len(old)] * len(old)]
            words |= {"data.shards": json.dumps(paths), "data.weights": json.dumps(weights)}

        if old and method == "ewc":
            file = self._fisher_file(before, number - 1)
            words["regularizer"] = f"{{name: ewc, fisher: {file}, strength: {options.strength}}}"

        if old and method == "l2_sp":
            words["regularizer"] = f"{{name: l2_sp, alpha: {options.alpha}}}"
            words["optimizer.weight_decay"] = 0

        return [f"{key}={value}" for key, value in words.items()]

    def _fisher_file(self, run: Path, number: int) -> Path:
        """Return the file with the weights of a run, and the information of the tasks until one."""
        seed = "" if run == self.options.run else run.relative_to(self.options.output).parts[0]
        return self.options.output / "fisher" / seed / f"{self.tasks[number].name}.safetensors"

    def _fisher_steps(self, runs: Sequence[Path], number: int) -> Iterator[PlannedCommand]:
        """Yield what measures the Fisher information of each earlier task.

        Each is measured with the run that had just learned it, and added to that of those before.
        """
        added: list[str] = []

        for old in range(number):
            run = runs[max(0, old - self.options.learned + 1)]
            file = self._fisher_file(run, old)
            data = f"data={self.tasks[old].shards}"
            words = [f"output={file}", data, f"rows={self.options.rows}", *added]
            yield PlannedCommand(["fisher", run, *words], {file: None})
            added = [f"add={file}"]

    def write_scores(self, runs: Sequence[Path], path: Path) -> None:
        """Score every task whose heads a run has, the last of `runs`."""
        known = self.options.learned + len(runs) - 1
        kinds: dict[str, str] = {}
        scores: list[float | None] = []
        latest = TrainedModel.open(runs[-1]).model

        for number, task in enumerate(self.tasks):
            scorer = self._model_for_task(latest, runs, number, known)
            score = None
            if scorer is not None:
                kinds[task.name], score = task.score(scorer, self.options.heldout_rows)
            scores.append(score)

        publish_json(path, {"run": str(runs[-1]), "scores": scores, "kinds": kinds})

    def _model_for_task(
        self, latest_model: Model, runs: Sequence[Path], number: int, known: int
    ) -> Model | None:
        """Return a model that scores a task, with its heads and the body of the last stage.

        A task with the heads of the last run uses those; any other learned task uses the heads of
        the run that learned it.
        """
        task = self.tasks[number]
        heads = {*latest_model.config.targets.values()}
        if (
            self.tasks[known - 1].signature == task.signature
            if known
            else heads.issuperset(task.signature[0])
        ):
            return latest_model

        if number >= known:
            return None
        model = TrainedModel.open(runs[max(0, number - self.options.learned + 1)]).model
        with torch.no_grad():
            for name, parameter in model.family.named_parameters():
                parameter.copy_(latest_model.family.get_parameter(name))

        return model
