"""Score each task after each stage of sequential fine-tuning, and compute forgetting and backward transfer.

R[i, j] is the score on task j after stage i; stage 0 is the run that training begins from. The mean of R[last, j] -
R[learned(j), j] over earlier tasks is *backward transfer* (arXiv 1706.08840). *Forgetting* of a task is its best score
from when it was learned until before the last stage, minus its last (arXiv 1801.10112). Scores are accuracies, of which
more is better, or losses in nats, of which less is. Signs are turned: forgetting above 0 is always a loss of what was
known, and backward transfer above 0 a gain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from clozeline.tools.experiments.multirun.comparison import mean_and_deviation

Matrix: TypeAlias = Sequence[Sequence[float | None]]
"""[stages, tasks]; None where a task cannot be scored yet"""


@dataclass(frozen=True)
class Outcome:
    """Figures of a matrix."""

    forgetting: list[float]
    """of each task that was learned before the last stage; above 0: it is worse than it was"""
    backward_transfer: float | None
    """mean change of these tasks since they were learned; above 0: they are better. None: there are none"""
    last: float
    """score of the task that was learned last"""


def outcome(matrix: Matrix, learned: Sequence[int], rising: Sequence[bool]) -> Outcome:
    """Return forgetting and backward transfer of a matrix.

    Args:
        matrix: with a score for each task from the stage on at which it was learned.
        learned: stage at which each task was learned, ascending; the last is the last stage.
        rising: whether more is better, for each task.

    Example (two tasks; the first is at 0.9, and at 0.7 after the second):
        >>> outcome([[0.5, 0.5], [0.9, 0.5], [0.7, 0.8]], [1, 2], [True, True])
        Outcome(forgetting=[0.2], backward_transfer=-0.2, last=0.8)
    """
    end = len(matrix) - 1
    forgetting, changes = [], []
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
    matrices: Mapping[str, Sequence[Matrix]], names: Sequence[str], learned: Sequence[int], rising: Sequence[bool]
) -> dict[str, Any]:
    """Return the mean and deviation over seeds of everything, by method, as plain data.

    Args:
        matrices: of each method, one a seed.
        names: of tasks.
        learned: stage at which each was learned.
        rising: whether more is better.
    """
    found: dict[str, Any] = {}
    for method, of_seeds in matrices.items():
        outcomes = [outcome(matrix, learned, rising) for matrix in of_seeds]
        old = [name for name, stage in zip(names, learned, strict=True) if stage < len(of_seeds[0]) - 1]
        values = {f"forgetting of {name}": [one.forgetting[at] for one in outcomes] for at, name in enumerate(old)}
        transfers = [one.backward_transfer for one in outcomes if one.backward_transfer is not None]
        values |= {"backward transfer": transfers} if transfers else {}
        values |= {"last task": [one.last for one in outcomes]}
        figures = {}
        for name, of in values.items():
            mean, deviation = mean_and_deviation(of)
            figures[name] = {"mean": mean, "deviation": deviation, "seeds": of}
        found[method] = {"matrices": [list(map(list, matrix)) for matrix in of_seeds], "figures": figures}
    return found


def summary_lines(
    found: Mapping[str, Any], names: Sequence[str], stages: Sequence[str], kinds: Sequence[str]
) -> Iterator[str]:
    """Yield the matrix of each method, as means over seeds, then a row of figures for each.

    Args:
        found: of `summary`.
        names: of tasks.
        stages: names of the rows of a matrix.
        kinds: what a score is, for each task: accuracy, nats.
    """
    heads = [f"{name} ({kind})" for name, kind in zip(names, kinds, strict=True)]
    for method, one in found.items():
        yield f"{method}, {len(one['matrices'])} seeds"
        yield "  " + " ".join([f"{'':<20}", *(f"{head:>20}" for head in heads)])
        for number, stage in enumerate(stages):
            cells = []
            for task in range(len(names)):
                scores = [matrix[number][task] for matrix in one["matrices"]]
                known = [score for score in scores if score is not None]
                cells.append(f"{sum(known) / len(known):.4f}" if known else "-")
            yield "  " + " ".join([f"{stage:<20}", *(f"{cell:>20}" for cell in cells)])
    for method, one in found.items():
        shown = (
            f"{name} {figure['mean']:+.4f}" + ("" if figure["deviation"] is None else f" ± {figure['deviation']:.4f}")
            for name, figure in one["figures"].items()
        )
        yield f"{method:<8}" + ", ".join(shown)
