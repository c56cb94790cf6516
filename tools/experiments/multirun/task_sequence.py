"""Sequential fine-tuning on several tasks, with methods against forgetting: each task starts from the run before it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import torch
from pydantic.dataclasses import dataclass as checked
from safetensors import safe_open
from torch import Tensor

from clozeline.model.build import Model
from clozeline.configuration.config import STRICT, config_file, load_config
from clozeline.configuration.home_folder import HOME_EXPANDED
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.files import publish_json, read_json
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.pipeline.tasks.readers import facts_of
from clozeline.tools.runs.evaluation.heldout_score import heldout_score
from clozeline.tools.experiments.multirun.forgetting_scores import Matrix
from clozeline.tools.experiments.multirun.runner import Training, run_step
from clozeline.tools.model_folder import write_tensors
from clozeline.tools.runs.inference.trained_model import load_trained

Method: TypeAlias = Literal["plain", "replay", "ewc", "l2_sp"]


@checked(frozen=True, kw_only=True, config=STRICT)
class _TaskFile:
    """A task: its name, its sets, and how it is learned."""

    name: str
    """of the task, in folders and tables"""
    shards: Annotated[Path, HOME_EXPANDED]
    """training set"""
    heldout: Annotated[Path, HOME_EXPANDED] | None = None
    """set that is scored; default: heldout or dev beside the training set"""
    config: str | None = None
    """training configuration, a file or recipe:NAME; default: that of the run that training begins from"""


@dataclass(frozen=True)
class Task:
    """A task whose sets exist.

    Args:
        name: of the task.
        shards: its training set.
        heldout: the set that is scored.
        config: training configuration; None: that of the first run.
    """

    name: str
    shards: ShardSet
    heldout: ShardSet
    config: Path | None

    @cached_property
    def signature(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The heads that learn it, and the names of their classes: tasks with the same share their heads."""
        objective, facts = self.shards.manifest.objective, facts_of(self.shards.manifest)
        return () if objective is None else objective.heads, () if facts is None else facts.labels

    def plain(self) -> dict[str, Any]:
        """Return what says which task it is."""
        return {
            "name": self.name,
            "set": self.shards.digest,
            "heldout": self.heldout.digest,
            "config": str(self.config),
        }


def read_tasks(paths: Sequence[Path], learned: int) -> list[Task]:
    """Return the tasks of YAML files.

    Args:
        paths: of the files.
        learned: tasks that are learned already; at least one must remain.

    Raises:
        ConfigurationError: a file or a set is missing, two tasks have one name, or none remains to be learned.
    """
    tasks = [_task(load_config(_TaskFile, path), path) for path in paths]
    if learned >= len(paths):
        raise ConfigurationError(f"learned: expected fewer than the {len(paths)} tasks, got {learned}")
    names = [task.name for task in tasks]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigurationError(f"tasks: expected different names, got '{twice[0]}' twice")
    return tasks


def _task(given: _TaskFile, path: Path) -> Task:
    folder = given.shards.parent if given.shards.name == "manifest.json" else given.shards
    heldout = given.heldout
    if heldout is None:
        beside = [folder.parent / name for name in ("heldout", "dev")]
        heldout = next((one for one in beside if (one / "manifest.json").is_file()), None)
        if heldout is None:
            raise ConfigurationError(f"{path}: heldout: expected a set, found none at {' or '.join(map(str, beside))}")
    config = None if given.config is None else config_file(given.config, "train.yaml").resolve()
    return Task(given.name, open_shards(given.shards), open_shards(heldout), config)


@dataclass(frozen=True)
class TaskSequence:
    """Tasks in the order of learning, and where their runs are.

    Args:
        body: run that training begins from.
        tasks: all tasks.
        learned: tasks, the first ones, that `body` has learned.
        output: folder of runs and scores.
        words: `key=value` of every training.
        most_rows: rows of each held-out set that are scored; None: all.
    """

    body: Path
    tasks: list[Task]
    learned: int
    output: Path
    words: tuple[str, ...]
    most_rows: int | None = None

    def check(self, method: Method) -> None:
        """Refuse a method that these tasks cannot be learned by.

        Raises:
            ConfigurationError: the rows of tasks with other heads, or other classes, would be mixed.
        """
        if method == "replay" and len({task.signature for task in self.tasks}) > 1:
            listed = "; ".join(
                f"{task.name}: {' '.join((*task.signature[0], *task.signature[1]))}" for task in self.tasks
            )
            raise ConfigurationError(f"method=replay: expected tasks of the same heads and classes, got {listed}")

    def kinds(self, method: Method) -> list[str]:
        """Return what the score of each task is, accuracy or nats, once a method has learned all with seed 0."""
        held = self._read(self._paths(method, 0, len(self.tasks) - 1)[1])["kinds"]
        return [held[task.name] for task in self.tasks]

    def _paths(self, method: Method, seed: int, number: int) -> tuple[Path, Path]:
        """Return the run directory of a task and its score file; the first task is trained once for all methods."""
        branch = Path(f"seed-{seed}") / (method if number else "first") / self.tasks[number].name
        return self.output / branch, self.output / "scores" / branch.with_name(f"{branch.name}.json")

    def learn(self, method: Method, seed: int, replay: float, strength: float, alpha: float, rows: int) -> Matrix:
        """Train every task that is to be learned, unless that is done, and return the matrix of scores.

        Args:
            method: that keeps what was learned.
            seed: of the trainings.
            replay: share of the rows of earlier tasks.
            strength: of elastic weight consolidation.
            alpha: of L2-SP.
            rows: examples of the Fisher information.
        """
        runs, before = [self.body], self.output / "scores" / "before.json"
        if not before.exists():
            self._write_scores(runs, 0, before)
        matrix = [self._read(before)["scores"]]
        for number in range(self.learned, len(self.tasks)):
            task, old = self.tasks[number], self.tasks[:number]
            run, scores = self._paths(method, seed, number)
            words = self._words(task, runs[-1], run, seed)
            if old and method == "replay":
                shares = [1 - replay, *[replay / len(old)] * len(old)]
                words["data.shards"] = _listed([one.shards.path for one in (task, *old)])
                words["data.weights"] = _listed(shares)
            if old and method == "ewc" and not scores.exists():
                file = self._fisher(runs, number, run.parent, rows)
                words["regularizer"] = f"{{name: ewc, fisher: {file}, strength: {strength}}}"
            if old and method == "l2_sp":
                words |= {"regularizer": f"{{name: l2_sp, alpha: {alpha}}}", "optimizer.weight_decay": "0"}
            runs.append(run)
            overrides = [*(f"{key}={value}" for key, value in words.items()), *self.words]
            results = {scores: partial(self._write_scores, [*runs], number + 1)}
            Training(task.config or self.body / "config.yaml", results, overrides=overrides).collect()
            matrix.append(self._read(scores)["scores"])
        return matrix

    def _words(self, task: Task, before: Path, run: Path, seed: int) -> dict[str, str]:
        """Return the words of a training; those of the first run's configuration that were its own are taken back."""
        words = {"model.init_from": str(before), "data.shards": str(task.shards.path), "output": str(run)}
        words |= {"seed": str(seed), "data.seed": str(seed), "data.heldout": str(task.heldout.path)}
        if task.config is None:
            words |= {"init_parts": "[]", "regularizer": "null", "data.weights": "[]", "data.phases": "[]"}
            words |= {"schedule.steps": "null"}
        return words

    def _fisher(self, runs: Sequence[Path], number: int, branch: Path, rows: int) -> Path:
        """Return a file with the weights of the run before, and the Fisher information of all earlier tasks, summed.

        That of each task is measured once, with the run that had just learned it.
        """
        files = []
        for old in range(number):
            source = runs[max(0, old - self.learned + 1)]
            file = branch / f"fisher-{self.tasks[old].name}.safetensors"
            if not file.exists():
                words = [f"output={file}", f"data={self.tasks[old].shards.path}", f"rows={rows}"]
                run_step("clozeline", "fisher", source, *words)
            files.append(file)
        return files[0] if len(files) == 1 else _summed(files, branch / f"fisher-of-{number}.safetensors")

    def _write_scores(self, runs: Sequence[Path], learned: int, path: Path) -> None:
        """Score all tasks with the body of the last of the runs until a stage, after so many learned tasks."""
        learned = max(learned, self.learned)
        kinds: dict[str, str] = {}
        scores: list[float | None] = []
        whole = load_trained(runs[-1]).model
        for number, task in enumerate(self.tasks):
            scorer, score = self._scorer(whole, runs, number, learned), None
            if scorer is not None:
                kinds[task.name], score = heldout_score(scorer, task.heldout, self.most_rows)
            scores.append(score)
        publish_json(path, {"run": str(runs[-1]), "scores": scores, "kinds": kinds})

    def _scorer(self, whole: Model, runs: Sequence[Path], number: int, known: int) -> Model | None:
        """Return a model that scores a task: with its heads, and the body of the last stage.

        A task with the heads of the last run has them from there; another one, that is learned already, has the heads
        of the run that learned it.
        """
        task = self.tasks[number]
        latest = self.tasks[known - 1].signature if known else None
        if latest == task.signature or (not known and set(task.signature[0]) <= {*whole.config.targets.values()}):
            return whole
        if number >= known:
            return None
        model = load_trained(runs[max(0, number - self.learned + 1)]).model
        with torch.no_grad():
            for name, parameter in model.family.named_parameters():
                parameter.copy_(whole.family.get_parameter(name))
        return model

    def _read(self, path: Path) -> dict[str, Any]:
        found = read_json(path)
        if found is None:
            raise IntegrityError(f"{path}: is damaged; remove it, and the same command scores that stage again")
        return found


def _listed(values: Sequence[Any]) -> str:
    return json.dumps([str(value) if isinstance(value, Path) else value for value in values])


def _summed(files: Sequence[Path], path: Path) -> Path:
    """Write the weights of the last of some files, and the sums of their Fisher information; return the file."""
    tensors: dict[str, Tensor] = {}
    for file in files:
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 (no mapping)
                values = opened.get_tensor(name)
                before = tensors.get(name) if name.startswith("fisher/") else None
                tensors[name] = values if before is None else before + values
    write_tensors(path, tensors)
    return path
