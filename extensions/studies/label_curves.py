"""Say how many labels a pretrained body is worth: scores by labeled rows, from two beginnings."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

import numpy as np

from clozeline.extensions.tasks.finetuning_scores import ScoredRun, mean_text
from clozeline.terminal import align_rows


def find_rows_worth(score: float, curve: Sequence[tuple[int, float]]) -> float | None:
    """Return the number of rows at which a curve of (rows, score) first reaches a score.

    Between two points the score is linear in the logarithm of the rows. The first point stands for
    all smaller numbers; None: the curve never reaches the score.
    """
    rising = [curve[0]]
    for point in curve[1:]:
        if point[1] > rising[-1][1]:
            rising.append(point)
    rows, scores = zip(*rising, strict=True)
    return None if score > scores[-1] else math.exp(np.interp(score, scores, np.log(rows)))


def label_lines(points: Mapping[tuple[str, str, int], Sequence[ScoredRun]]) -> Iterator[str]:
    """Yield a table for each task: how many rows from random weights all weights are worth.

    The factor is the mean over the seeds of all weights, ± their standard deviation, compared with
    the mean curve from random weights (ULMFiT: arXiv 1801.06146 §5). Tasks with fewer than two
    numbers of rows from both beginnings have no table.

    Args:
        points: the scored seeds of a fine-tuning by task, beginning and labeled rows.
    """
    scores = {
        key: [next(iter(run.metrics.values())) for run in runs] for key, runs in points.items()
    }

    for task in dict.fromkeys(task for task, _, _ in points):
        rows = sorted(
            rows
            for of, begin, rows in points
            if (of, begin) == (task, "all") and (task, "random", rows) in points
        )
        if len(rows) < 2:
            continue
        curve = [(number, fmean(scores[task, "random", number])) for number in rows]
        heads = ("all weights", "random weights", "baseline", "worth", "factor")
        table = [[f"{task}: labeled rows", *heads]]

        for number in rows:
            pretrained = scores[task, "all", number]
            worths = [find_rows_worth(score, curve) for score in pretrained]
            reached = [worth for worth in worths if worth is not None]
            worth, factor = f"> {rows[-1]:,}", f"> {rows[-1] / number:.1f}"
            if len(reached) == len(worths):
                worth = f"{fmean(reached):,.0f}"
                factor = mean_text([each / number for each in reached], 1)
            run = points[task, "all", number][0]
            metric = next(iter(run.metrics))
            baseline = max(values[metric] for values in run.scores["baselines"].values())
            shown = (mean_text(of, 3) for of in (pretrained, scores[task, "random", number]))
            table.append([f"{number:,}", *shown, f"{baseline:.3f}", worth, factor])

        yield from align_rows(table, right=True)
