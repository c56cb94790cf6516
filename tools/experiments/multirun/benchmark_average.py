"""Average the scores of fine-tuned tasks as GLUE (arXiv 1804.07461) and SuperGLUE (arXiv 1905.00537) do."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.tools.experiments.multirun.comparison import ScoredRun

BENCHMARKS: Final[Mapping[str, frozenset[str]]] = {
    "GLUE": frozenset(("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")),
    "SuperGLUE": frozenset(("boolq", "cb", "copa", "multirc", "record", "rte", "wic", "wsc")),
}


def task_score(by_split: Mapping[str, Sequence[ScoredRun]]) -> float:
    """Return the score of a task: the mean of its metrics, over the seeds and, for MNLI, over both dev sets."""
    runs = [run for of_split in by_split.values() for run in of_split]
    return fmean(run.scores["metrics"][metric] for run in runs for metric in run.facts.metrics)


def average_lines(named: Sequence[tuple[str, Mapping[str, Sequence[ScoredRun]]]]) -> Iterator[str]:
    """Yield the score of each task, and the mean over tasks for each benchmark that has all of them.

    Args:
        named: scores by split, with a name, of one folder for each task.

    Raises:
        ConfigurationError: two folders have the same task.
    """
    scores: dict[str, float] = {}
    for name, by_split in named:
        runs = by_split["dev"]
        task = runs[0].facts.name
        if task in scores:
            raise ConfigurationError(f"{name}: the task {task} is there twice; name one folder for each task")
        kept = dict(by_split) if task == "mnli" else {"dev": runs}
        scores[task] = task_score(kept)
        metrics, splits = ", ".join(runs[0].facts.metrics), f" on {', '.join(kept)}" if len(kept) > 1 else ""
        yield f"  {task:<12}{100 * scores[task]:6.2f}  {metrics}{splits}, seeds {len(runs)}"
    fitting = {name: tasks for name, tasks in BENCHMARKS.items() if scores.keys() <= tasks}
    if not fitting:
        yield f"mean of {len(scores)} tasks {100 * fmean(scores.values()):.2f}"
    for name, tasks in fitting.items():
        lacking = ", ".join(sorted(tasks - scores.keys()))
        note = f"{len(scores)} of its {len(tasks)} tasks, without {lacking}" if lacking else f"all {len(tasks)} tasks"
        yield f"{name}: mean of {note}: {100 * fmean(scores.values()):.2f}"
