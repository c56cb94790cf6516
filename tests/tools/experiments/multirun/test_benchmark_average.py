"""Averages over tasks, computed by hand."""

from __future__ import annotations

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.tools.experiments.multirun.finetuning_scores import BENCHMARKS, ScoredRun, average_lines


def runs(task: str, *metrics: dict[str, float]) -> list[ScoredRun]:
    """A run for each seed; metrics that the task does not name do not count."""
    named = tuple(name for name in metrics[0] if name != "further")
    facts = TaskFacts(name=task, head="classification", labels=("0", "1"), metrics=named)
    return [ScoredRun({"metrics": of_seed, "seed": seed}, facts) for seed, of_seed in enumerate(metrics)]


def test_metrics_are_averaged_before_tasks() -> None:
    folders = [
        ("a", {"dev": runs("mrpc", {"accuracy": 0.8, "f1": 0.9, "further": 0.0}, {"accuracy": 0.6, "f1": 0.7})}),
        ("b", {"dev": runs("mnli", {"accuracy": 0.5}), "mm": runs("mnli", {"accuracy": 0.7})}),
        ("c", {"dev": runs("sst2", {"accuracy": 0.9}), "other": runs("sst2", {"accuracy": 0.0})}),
    ]
    *tasks, last = average_lines(folders)
    assert [line.split()[:2] for line in tasks] == [["mrpc", "75.00"], ["mnli", "60.00"], ["sst2", "90.00"]]
    assert "on dev, mm" in tasks[1]
    assert last == "GLUE: mean of 3 of its 9 tasks, without cola, qnli, qqp, rte, stsb, wnli: 75.00"


def test_all_tasks_and_other_tasks() -> None:
    everything = [(task, {"dev": runs(task, {"accuracy": 0.5})}) for task in sorted(BENCHMARKS["SuperGLUE"])]
    assert [*average_lines(everything)][-1] == "SuperGLUE: mean of all 8 tasks: 50.00"
    shared = [*average_lines([("x", {"dev": runs("rte", {"accuracy": 0.25})})])]
    assert [line.partition(":")[0] for line in shared[1:]] == ["GLUE", "SuperGLUE"]
    assert [*average_lines([("x", {"dev": runs("own", {"accuracy": 0.25})})])][-1] == "mean of 1 tasks 25.00"


def test_a_task_is_there_once() -> None:
    folders = [(name, {"dev": runs("rte", {"accuracy": 0.5})}) for name in "ab"]
    with pytest.raises(ConfigurationError, match="b: the task rte is there twice"):
        list(average_lines(folders))
