"""Say how many labels a pretrained body is worth: scores by labeled rows, from two beginnings."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from clozeline.extensions.tasks.finetuning_scores import ScoredRun, mean_text
from clozeline.terminal import align_rows

_HEADS: Final = ("labeled rows", "all weights", "random weights", "baseline", "worth", "factor")


@dataclass(frozen=True)
class LabelPoint:
    """The scores of one fine-tuning: of one task, from one beginning, on so many rows."""

    task: str
    begin: str
    rows: int
    runs: Sequence[ScoredRun]

    @property
    def scores(self) -> list[float]:
        """The first metric of each seed."""
        return [next(iter(run.metrics.values())) for run in self.runs]

    @property
    def baseline(self) -> float:
        """The best score of a method that needs no body, on the same rows."""
        metric = next(iter(self.runs[0].metrics))
        baselines = self.runs[0].scores["baselines"]
        return max(float(scores[metric]) for scores in baselines.values())


def find_rows_worth(score: float, curve: Sequence[tuple[int, float]]) -> float | None:
    """Return the number of rows at which a curve of (rows, score) first reaches a score.

    Between two points the score is linear in the logarithm of the rows. The first point stands for
    all smaller numbers; None: the curve never reaches the score.
    """
    before = curve[0]
    if score <= before[1]:
        return float(before[0])

    for point in curve[1:]:
        if score <= point[1]:
            share = (score - before[1]) / (point[1] - before[1])
            logarithm = math.log(before[0]) + share * math.log(point[0] / before[0])
            return math.exp(logarithm)
        if point[1] > before[1]:
            before = point
    return None


def label_lines(points: Sequence[LabelPoint]) -> Iterator[str]:
    """Yield a table for each task: how many rows from random weights all weights are worth.

    The factor is the mean over the seeds of all weights, ± their standard deviation, compared with
    the mean curve from random weights (ULMFiT: arXiv 1801.06146 §5). Tasks with fewer than two
    numbers of rows from both beginnings have no table.
    """
    for task in dict.fromkeys(point.task for point in points):
        of_task = sorted(
            (point for point in points if point.task == task), key=lambda point: point.rows
        )
        pretrained = {point.rows: point for point in of_task if point.begin == "all"}
        random = {point.rows: point for point in of_task if point.begin == "random"}
        rows = sorted(pretrained.keys() & random.keys())
        if len(rows) < 2:
            continue
        curve = [(number, fmean(random[number].scores)) for number in rows]
        table = [[f"{task}: {_HEADS[0]}", *_HEADS[1:]]]

        for number in rows:
            scores = pretrained[number].scores
            worths = [find_rows_worth(score, curve) for score in scores]
            reached = [worth for worth in worths if worth is not None]
            if len(reached) == len(worths):
                worth = f"{fmean(reached):,.0f}"
                factor = mean_text([each / number for each in reached], 1)
            else:
                worth = f"> {rows[-1]:,}"
                factor = f"> {rows[-1] / number:.1f}"
            table.append(
                [
                    f"{number:,}",
                    mean_text(scores, 3),
                    mean_text(random[number].scores, 3),
                    f"{pretrained[number].baseline:.3f}",
                    worth,
                    factor,
                ]
            )

        yield from align_rows(table, right=True)
