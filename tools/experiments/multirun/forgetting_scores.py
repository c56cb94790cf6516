"""Options of sequential fine-tuning, and its figures: forgetting and backward transfer.

R[i, j] is the score on task j after stage i; stage 0 is the initial run. The mean of R[last, j] - R[learned(j), j] over
earlier tasks is *backward transfer* (arXiv 1706.08840). *Forgetting* of a task is its best score from when it was
learned until before the last stage, minus its last (arXiv 1801.10112). Scores are accuracies, where higher is better,
or losses in nats, where lower is. Signs are normalized: forgetting above 0 is a loss of knowledge, backward transfer
above 0 a gain.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import Field

from clozeline.configuration.config import HOME_EXPANDED, ONE_OR_MORE, config_class
from clozeline.tools.experiments.multirun.comparison import mean_text

Method: TypeAlias = Literal["plain", "replay", "ewc", "l2_sp"]
Matrix: TypeAlias = Sequence[Sequence[float | None]]
"""[stages, tasks]; None where a task cannot be scored yet"""


@config_class
class ForgettingOptions:
    """Tasks, methods and their strengths."""

    tasks: Annotated[list[Path], ONE_OR_MORE, Field(min_length=1)]
    """YAML files of tasks in learning order, each with {name, shards, heldout, config}"""
    method: Annotated[list[Method], ONE_OR_MORE, Field(min_length=1)] = Field(
        default_factory=lambda: list[Method](get_args(Method)), description="plain, replay, ewc, l2_sp"
    )
    output: Annotated[Path, HOME_EXPANDED]
    """folder for all runs and scores"""
    seeds: Annotated[int, Field(ge=1)] = 1
    """runs per method, with the seeds 0, 1, ...; can be increased later"""
    learned: Annotated[int, Field(ge=0)] = 0
    """number of leading tasks that RUN has already learned"""
    replay: Annotated[float, Field(gt=0, lt=1)] = 0.25
    """replay: total share of rows from earlier tasks"""
    strength: Annotated[float, Field(ge=0)] = 100.0
    """ewc: factor of the Fisher information"""
    alpha: Annotated[float, Field(ge=0)] = 0.1
    """l2_sp: factor of the squared distance"""
    rows: Annotated[int, Field(ge=1)] = 256
    """ewc: examples per task for the Fisher information"""
    heldout_rows: Annotated[int, Field(ge=1)] | None = None
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

    `learned` is the ascending stage at which each task was learned, the last one at the last stage; `rising` tells
    whether higher scores are better.

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
    matrices: Mapping[Method, Sequence[Matrix]], names: Sequence[str], learned: Sequence[int], rising: Sequence[bool]
) -> dict[str, object]:
    """Return mean and deviation over seeds of all figures, by method, as plain data; see `outcome`."""
    summaries: dict[str, object] = {}
    for method, seed_matrices in matrices.items():
        outcomes = [outcome(matrix, learned, rising) for matrix in seed_matrices]
        old = [name for name, stage in zip(names, learned, strict=True) if stage < len(seed_matrices[0]) - 1]
        forgotten = zip(*(result.forgetting for result in outcomes), strict=True)
        values = {f"forgetting of {name}": list(of_seeds) for name, of_seeds in zip(old, forgotten, strict=True)}
        transfers = [result.backward_transfer for result in outcomes if result.backward_transfer is not None]
        values |= {"backward transfer": transfers} if transfers else {}
        values |= {"last task": [result.last for result in outcomes]}
        figures = {}
        for name, values_of_seeds in values.items():
            deviation = stdev(values_of_seeds) if len(values_of_seeds) > 1 else None
            figures[name] = {"mean": fmean(values_of_seeds), "deviation": deviation, "seeds": values_of_seeds}
        summaries[method] = {"matrices": [list(map(list, matrix)) for matrix in seed_matrices], "figures": figures}
    return summaries


def summary_lines(
    summaries: Mapping[str, Any], names: Sequence[str], stages: Sequence[str], kinds: Sequence[str]
) -> Iterator[str]:
    """Yield the matrix of each method, averaged over seeds, then one line of figures per method."""
    heads = [f"{name} ({kind})" for name, kind in zip(names, kinds, strict=True)]
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
        yield f"{method:<8}" + ", ".join(f"{name} {mean_text(figure['seeds'], 4)}" for name, figure in figures)
