"""Fine-tune on several tasks in sequence, with methods against forgetting.

Each task starts from the run of the task before it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, Literal, TypeAlias, get_args

import torch
from pydantic import Field
from safetensors import safe_open
from torch import Tensor

from clozeline.configuration.config import (
    ONE_OR_MORE,
    config_class,
    config_file,
    load_config,
)
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.extensions.evaluation.heldout_score import heldout_score
from clozeline.extensions.tasks.finetuning_scores import mean_text
from clozeline.extensions.tasks.readers import read_task_metadata
from clozeline.files import publish_json, read_json
from clozeline.model.build import Model
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.tools.command import Natural, OutputPath, Positive, UserPath
from clozeline.tools.model_folder import write_tensors
from clozeline.tools.start.multirun.runner import ExperimentTraining, run_step
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.configuration.config import with_absolute_paths

Method: TypeAlias = Literal["plain", "replay", "ewc", "l2_sp"]
Matrix: TypeAlias = Sequence[Sequence[float | None]]
"""[stages, tasks]; None where a task cannot be scored yet"""


@config_class
class ForgettingOptions:
    """Tasks, methods and their strengths."""

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


@dataclass(frozen=True)
class Outcome:
    """Figures of a score matrix."""

    forgetting: list[float]
    """per task learned before the last stage; above 0: worse than before"""
    backward_transfer: float | None
    """mean change of these tasks since they were learned; above 0: better. None: there are none"""
    last: float
    """score of the last learned task"""


def outcome(matrix: Matrix, learned: Sequence[int], rising: Sequence[bool]) -> Outcome:
    """Return forgetting and backward transfer of a matrix.

    `learned` is the ascending stage at which each task was learned, the last one at the last stage;
    `rising` tells whether higher scores are better.

    Example (two tasks; the first is at 0.9, and at 0.7 after the second):
        >>> outcome([[0.5, 0.5], [0.9, 0.5], [0.7, 0.8]], [1, 2], [True, True])
        Outcome(forgetting=[0.2], backward_transfer=-0.2, last=0.8)
    """
    end = len(matrix) - 1
    forgetting = []
    changes = []

    for task, (stage, rises) in enumerate(zip(learned, rising, strict=True)):
        if stage == end:
            continue
        scores = [score for row in matrix[stage:] if (score := row[task]) is not None]
        signed = [score if rises else -score for score in scores]
        forgetting.append(round(max(signed[:-1]) - signed[-1], 12))
        changes.append(signed[-1] - signed[0])

    last = matrix[end][learned.index(end)]

    assert last is not None, "the task of the last stage has a score"

    return Outcome(forgetting, round(sum(changes) / len(changes), 12) if changes else None, last)


def summary(
    matrices: Mapping[Method, Sequence[Matrix]],
    names: Sequence[str],
    learned: Sequence[int],
    rising: Sequence[bool],
) -> dict[str, object]:
    """Return mean and deviation over seeds of all figures, by method, as data for JSON.

    See `outcome`.
    """
    summaries: dict[str, object] = {}

    for method, seed_matrices in matrices.items():
        outcomes = [outcome(matrix, learned, rising) for matrix in seed_matrices]
        old = [
            name
            for name, stage in zip(names, learned, strict=True)
            if stage < len(seed_matrices[0]) - 1
        ]

        forgotten = zip(*(result.forgetting for result in outcomes), strict=True)
        values = {
            f"forgetting of {name}": list(of_seeds)
            for name, of_seeds in zip(old, forgotten, strict=True)
        }
        transfers = [
            result.backward_transfer for result in outcomes if result.backward_transfer is not None
        ]
        values |= {"backward transfer": transfers} if transfers else {}
        values |= {"last task": [result.last for result in outcomes]}
        figures = {}

        for name, values_of_seeds in values.items():
            deviation = stdev(values_of_seeds) if len(values_of_seeds) > 1 else None
            figures[name] = {
                "mean": fmean(values_of_seeds),
                "deviation": deviation,
                "seeds": values_of_seeds,
            }

        summaries[method] = {
            "matrices": [list(map(list, matrix)) for matrix in seed_matrices],
            "figures": figures,
        }

    return summaries


def summary_lines(
    summaries: Mapping[str, Any], names: Sequence[str], stages: Sequence[str], kinds: Sequence[str]
) -> Iterator[str]:
    """Yield the matrix of each method, averaged over seeds, then one line of figures per method."""
    heads = [f"{name} ({measure})" for name, measure in zip(names, kinds, strict=True)]

    for method, method_summary in summaries.items():
        yield f"{method}, {len(method_summary['matrices'])} seeds"
        yield "  " + " ".join([f"{'':<20}", *(f"{head:>20}" for head in heads)])
        for number, stage in enumerate(stages):
            cells = []
            for task in range(len(names)):
                scores = [matrix[number][task] for matrix in method_summary["matrices"]]
                known = [score for score in scores if score is not None]
                cells.append(f"{sum(known) / len(known):.4f}" if known else "-")
            yield "  " + " ".join([f"{stage:<20}", *(f"{cell:>20}" for cell in cells)])

    for method, method_summary in summaries.items():
        figures = method_summary["figures"].items()
        yield f"{method:<8}" + ", ".join(
            f"{name} {mean_text(figure['seeds'], 4)}" for name, figure in figures
        )


@config_class
class _TaskFile:
    """A task: its name, its sets, and how it is trained."""

    name: str
    """name of the task, in folders and tables"""
    shards: UserPath
    """training set"""
    heldout: UserPath | None = None
    """set to score; default: heldout or dev next to the training set"""
    config: str | None = None
    """training configuration, a file or recipe:NAME; default: that of the initial run"""


@dataclass(frozen=True)
class SequenceTask:
    """A task whose sets exist; without a `config`, it is trained with that of the initial run."""

    name: str
    shards: ShardSet
    heldout: ShardSet
    config: Path | None

    @cached_property
    def signature(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Its heads and class names: tasks with the same signature share their heads."""
        objective = self.shards.manifest.objective
        metadata = read_task_metadata(self.shards.manifest)
        return (
            () if objective is None else objective.heads,
            () if metadata is None else metadata.labels,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the properties that identify the task, as data for JSON."""
        digests = {"set": self.shards.digest, "heldout": self.heldout.digest}
        return {"name": self.name, **digests, "config": str(self.config)}


def read_tasks(paths: Sequence[Path], learned: int) -> list[SequenceTask]:
    """Return the tasks of YAML files, of which the first `learned` are learned already."""
    tasks = [_open_task(load_config(_TaskFile, path), path) for path in paths]
    if learned >= len(paths):
        raise ConfigurationError(
            f"learned: expected fewer than the {len(paths)} tasks, got {learned}"
        )
    names = [task.name for task in tasks]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigurationError(f"tasks: expected different names, got '{twice[0]}' twice")
    return tasks


def _open_task(task_file: _TaskFile, path: Path) -> SequenceTask:
    task_file = with_absolute_paths(task_file)  # the trainings start elsewhere
    folder = (
        task_file.shards.parent if task_file.shards.name == "manifest.json" else task_file.shards
    )
    heldout = task_file.heldout
    if heldout is None:
        neighbors = [folder.parent / name for name in ("heldout", "dev")]
        heldout = next(
            (neighbor for neighbor in neighbors if (neighbor / "manifest.json").is_file()), None
        )
        if heldout is None:
            raise ConfigurationError(
                f"{path}: heldout: expected a set, got none at {' or '.join(map(str, neighbors))}"
            )

    config = (
        None if task_file.config is None else config_file(task_file.config, "train.yaml").resolve()
    )
    return SequenceTask(task_file.name, open_shards(task_file.shards), open_shards(heldout), config)


@dataclass(frozen=True)
class TaskSequence:
    """Tasks in learning order, and their runs; `words` are `key=value` for every training.

    The initial run `body` has learned the first `options.learned` tasks.
    """

    body: Path
    tasks: list[SequenceTask]
    options: ForgettingOptions
    words: tuple[str, ...]

    def check(self, method: Method) -> None:
        """Refuse a method that would mix the rows of tasks with different heads or classes."""
        if method == "replay" and len({task.signature for task in self.tasks}) > 1:
            listed = "; ".join(
                f"{task.name}: {' '.join((*task.signature[0], *task.signature[1]))}"
                for task in self.tasks
            )
            raise ConfigurationError(
                f"method=replay: expected tasks of the same heads and classes, got {listed}"
            )

    def kinds(self, method: Method) -> list[str]:
        """Return the metric of each task, accuracy or nats.

        Known once a method has learned all tasks with seed 0.
        """
        kinds_by_task = self._read(self._paths(method, 0, len(self.tasks) - 1)[1])["kinds"]
        return [kinds_by_task[task.name] for task in self.tasks]

    def _paths(self, method: Method, seed: int, number: int) -> tuple[Path, Path]:
        """Return the run directory of a task and its score file.

        All methods share the first task.
        """
        output = self.options.output.resolve()
        branch = Path(f"seed-{seed}") / (method if number else "first") / self.tasks[number].name
        return output / branch, output / "scores" / branch.with_name(f"{branch.name}.json")

    def learn(self, method: Method, seed: int) -> Matrix:
        """Train every task that is to be learned, if needed, and return the matrix of scores."""
        runs = [self.body]
        scored = [self.options.output.resolve() / "scores" / "before.json"]
        if not scored[0].exists():
            self._write_scores(runs, 0, scored[0])
        for number in range(self.options.learned, len(self.tasks)):
            run, scores = self._paths(method, seed, number)
            before = [*runs]
            config = self.tasks[number].config or self.body / "config.yaml"
            runs.append(run)
            results = {scores: partial(self._write_scores, [*runs], number + 1)}
            if not scores.exists():
                ExperimentTraining(
                    config, results, overrides=self._words(method, seed, number, before, run)
                ).collect()
            scored.append(scores)

        return [self._read(scores)["scores"] for scores in scored]

    def _words(
        self, method: Method, seed: int, number: int, before: Sequence[Path], run: Path
    ) -> list[str]:
        """Return the command words of the training of a task.

        It starts from the last run of `before`.
        """
        task = self.tasks[number]
        old = self.tasks[:number]
        options = self.options
        words = {
            "model.init_from": str(before[-1]),
            "data.shards": str(task.shards.path),
            "output": str(run),
        }

        words |= {"seed": str(seed), "data.seed": str(seed), "data.heldout": str(task.heldout.path)}

        if task.config is None:  # reset the keys that only concern the first run
            words |= {
                "init_parts": "[]",
                "regularizer": "null",
                "data.weights": "[]",
                "data.phases": "[]",
            }
            words |= {"schedule.steps": "null"}

        if old and method == "replay":
            words["data.shards"] = json.dumps(
                [str(earlier.shards.path) for earlier in (task, *old)]
            )
            words["data.weights"] = json.dumps(
                [1 - options.replay, *[options.replay / len(old)] * len(old)]
            )

        if old and method == "ewc":
            file = self._measure_fisher(before, number, run.parent)
            words["regularizer"] = f"{{name: ewc, fisher: {file}, strength: {options.strength}}}"

        if old and method == "l2_sp":
            words |= {
                "regularizer": f"{{name: l2_sp, alpha: {options.alpha}}}",
                "optimizer.weight_decay": "0",
            }

        return [*(f"{key}={value}" for key, value in words.items()), *self.words]

    def _measure_fisher(self, runs: Sequence[Path], number: int, branch: Path) -> Path:
        """Return a file with the previous run's weights and the sum of Fisher information.

        The sum is over all earlier tasks.

        That of each task is measured once, with the run that had just learned it.
        """
        files = []

        for old in range(number):
            source = runs[max(0, old - self.options.learned + 1)]
            file = branch / f"fisher-{self.tasks[old].name}.safetensors"
            if not file.exists():
                words = [
                    f"output={file}",
                    f"data={self.tasks[old].shards.path}",
                    f"rows={self.options.rows}",
                ]
                run_step("clozeline", "fisher", source, *words)
            files.append(file)

        return (
            files[0]
            if len(files) == 1
            else _sum_fisher_files(files, branch / f"fisher-of-{number}.safetensors")
        )

    def _write_scores(self, runs: Sequence[Path], known: int, path: Path) -> None:
        """Score every task whose heads a run has; the first `known` are learned."""
        known = max(known, self.options.learned)
        kinds: dict[str, str] = {}
        scores: list[float | None] = []
        latest = TrainedModel.open(runs[-1]).model

        for number, task in enumerate(self.tasks):
            scorer = self._model_for_task(latest, runs, number, known)
            score = None
            if scorer is not None:
                kinds[task.name], score = heldout_score(
                    scorer, task.heldout, self.options.heldout_rows
                )
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

    def _read(self, path: Path) -> dict[str, Any]:
        content = read_json(path)
        if content is None:
            raise IntegrityError(
                f"{path}: is damaged; remove it, and the same command scores that stage again"
            )
        return content


def _sum_fisher_files(files: Sequence[Path], path: Path) -> Path:
    """Write the weights of the last file and the sums of all files' Fisher information.

    Return the new file.
    """
    tensors: dict[str, Tensor] = {}
    for file in files:
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 (no mapping)
                values = opened.get_tensor(name)
                before = tensors.get(name) if name.startswith("fisher/") else None
                tensors[name] = values if before is None else before + values
    write_tensors(path, tensors)
    return path
