"""Score fine-tuned runs of one task with several seeds, and print tables of the scores."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev, variance
from typing import Any, Final

from clozeline.errors import ConfigurationError, plural
from clozeline.extensions.tasks.readers import TaskMetadata
from clozeline.extensions.tasks.score_notes import note_few_items
from clozeline.terminal import align_rows
from clozeline.tools.start.multirun.runner import read_result


def mean_text(values: Sequence[float], digits: int) -> str:
    """Return `mean ± deviation`, or just the mean of a single value.

    The deviation is the sample standard deviation (n - 1).
    """
    deviation = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{deviation}"


def difference_text(first: Sequence[float], second: Sequence[float], digits: int) -> str:
    """Return the mean of one group of runs minus the mean of another.

    After `±` stands its standard error over seeds: a difference within twice that decides nothing.
    With one run in a group, nothing is known about its seeds, and the text says so.

    Example:
        >>> difference_text([0.9, 0.92], [0.8, 0.82], 3)
        '+0.100 ± 0.014'
    """
    difference = f"{fmean(first) - fmean(second):+.{digits}f}"
    if min(len(first), len(second)) < 2:
        return f"{difference} (one seed)"
    return f"{difference} ± {standard_error(first, second):.{digits}f}"


def standard_error(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the standard error of the difference between the means of two groups of runs.

    Each group has two runs or more (Welch 1947).
    """
    return math.sqrt(sum(variance(group) / len(group) for group in (first, second)))


_SCORES_FOLDER: Final = "scores"
"""Folder, next to the runs, of the files with their scores."""
_BASELINES: Final = {
    "majority": "always giving the most frequent answer",
    "words": "counting words",
    "lead_3": "giving the first three sentences",
    "most_frequent_tag": "giving each word its most frequent tag",
}
"""What baselines do, by name."""


@dataclass(frozen=True)
class ScoredRun:
    """Scores of one run on a split, as `scores_of` returns them, and its task."""

    scores: dict[str, Any]
    facts: TaskMetadata

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the task, the main one first, as its reader lists them."""
        stored = self.scores["metrics"]
        return {metric: stored[metric] for metric in (*self.facts.metrics, *stored)}


def scores_path(folder: Path, split: str, seed: int) -> Path:
    """Return the file of a seed's scores; other splits than dev have separate folders."""
    return folder / _SCORES_FOLDER / ("" if split == "dev" else split) / f"seed-{seed}.json"


def read_by_split(folder: Path) -> dict[str, list[ScoredRun]]:
    """Return the scores of all seeds in a folder on dev, and on each test set by name."""
    further = sorted(path.name for path in (folder / _SCORES_FOLDER).glob("test_*"))
    return {"dev": read_scored(folder)} | {
        name.removeprefix("test_"): read_scored(folder, name) for name in further
    }


def read_scored(folder: Path, split: str = "dev") -> list[ScoredRun]:
    """Return the scores of all seeds in a folder on a split, by seed."""
    files = scores_path(folder, split, 0).parent.glob("seed-*.json")
    stored = [read_result(file) for file in files]
    if not stored:
        raise ConfigurationError(
            f"{folder}: expected an output of clozeline finetune with scores, got none"
        )
    if len({each["scores"]["set"] for each in stored}) > 1:
        raise ConfigurationError(
            f"{folder}: the seeds were scored on different sets; remove the old scores"
        )
    runs = [ScoredRun(each["scores"], TaskMetadata.from_dict(each["facts"])) for each in stored]
    return sorted(runs, key=lambda run: int(run.scores["seed"]))


def notes_of(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield caveats of a score: unparsable outputs, rows of train, contradicting labels."""
    if "unparsable" in scores:
        yield f"{scores['unparsable']:,g} unparsable"
    if "threshold" in scores:
        yield f"threshold of no answer {scores['threshold']:.3f}"
    for name, count in scores["notes"].items():
        if count:
            yield f"{count:,} {name.replace('_', ' ')}"


def figures_of(scores: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return each metric of a run, and then of its baselines, as text."""
    by_name = {"the model": scores["metrics"], **scores["baselines"]}
    return [
        (f"{metric} of {_BASELINES.get(name, name)}", f"{value:.4f}")
        for name, metrics in by_name.items()
        for metric, value in metrics.items()
    ]


def metric_lines(scores: Sequence[Mapping[str, Any]], single: str = "") -> Iterator[str]:
    """Yield each metric of runs that were scored on the same rows, next to its baselines.

    Means ± deviation over runs, or a value and the note `single`. One worse than a baseline is
    marked.
    """
    first = scores[0]
    if few := note_few_items(first["n"], first["unit"].removesuffix("s")):
        yield f"  {few}"
    signatures = first.get("signatures", {})

    for metric in first["metrics"]:
        values = [of_run["metrics"][metric] for of_run in scores]
        baselines = {
            name: of_baseline[metric]
            for name, of_baseline in first["baselines"].items()
            if metric in of_baseline
        }
        sign = -1 if metric in first.get("lower", ()) else 1  # older scores have no such metric
        mean = fmean(values)
        below = [name for name, value in baselines.items() if sign * mean < sign * value]
        single = "" if len(scores) > 1 else single
        others = ", ".join(f"{name} {value:.4f}" for name, value in baselines.items())
        line = f"  {metric:<21} {mean_text(values, 4) + single:<20}"
        line += f"  baselines: {others}" if others else ""
        line += f"  worse than {' and '.join(below)}" if below else ""
        line += f"  ({signatures[metric]})" if metric in signatures else ""
        line += "  (constant: no correlation is defined)" if first["degenerate"] else ""
        yield line


def table_lines(named: Sequence[tuple[str, Sequence[ScoredRun]]]) -> Iterator[str]:
    """Yield a table of groups: a line for each, then its metrics over seeds."""
    for name, runs in named:
        scores = [run.scores for run in runs]
        first = scores[0]
        unparsable = [of_run["unparsable"] for of_run in scores if "unparsable" in of_run]
        noted = {**first, "unparsable": fmean(unparsable)} if unparsable else first
        counts = ", ".join((f"{first['n']:,} {first['unit']}", *notes_of(noted)))
        seeds = "seed " if len(runs) == 1 else "seeds "
        seeds += ", ".join(str(of_run["seed"]) for of_run in scores)
        shown = f"{plural(len(runs), 'run')} ({seeds})"
        yield f"{name}: {first['task']} {first['split']}, {counts}, {shown}"
        yield from metric_lines(scores, " (one run)")


def advice_lines(runs: Sequence[ScoredRun], rows: int) -> Iterator[str]:
    """Yield what to do about runs whose first metric is below a baseline; `rows` trained them."""
    metric = next(iter(runs[0].metrics))
    mean = fmean(run.metrics[metric] for run in runs)
    baselines = {name: values[metric] for name, values in runs[0].scores["baselines"].items()}
    best = max(baselines, key=lambda name: baselines[name], default=None)
    if best is None or mean >= baselines[best]:
        return
    seeds = f"seed {runs[0].scores['seed']}" if len(runs) == 1 else f"mean of {len(runs)} seeds"
    yield (
        f"worse than {_BASELINES.get(best, 'the baseline')} ({best}): {metric} {mean:.4f} against "
        f"{baselines[best]:.4f}, {seeds}"
    )
    yield (
        f"what helps: more labeled rows than these {rows:,}, a larger body, or one that read more "
        "text. Where none is at hand, use the baseline: it needs no body"
    )


def matrix_lines(named: Sequence[tuple[str, Mapping[str, Sequence[ScoredRun]]]]) -> Iterator[str]:
    """Yield a table of folders by sets, with the mean over seeds of the first metric.

    The last column is the difference between dev and the other sets.

    For runs trained on one language, dev is that language, and the gap is the loss on the others
    (XTREME, arXiv 2003.11080). A dash marks a set that a folder was not scored on.
    """
    sets = list(dict.fromkeys(name for _, splits in named for name in splits))
    metric = next(iter(named[0][1]["dev"][0].metrics))
    rows = [[metric, *sets, "gap"]]

    for name, splits in named:
        means = {
            split: fmean(run.metrics[metric] for run in runs) for split, runs in splits.items()
        }
        others = [mean for split, mean in means.items() if split != "dev"]
        cells = [f"{means[split]:.4f}" if split in means else "-" for split in sets]
        difference = f"{means['dev'] - fmean(others):.4f}" if others else "-"
        rows.append([name, *cells, difference])

    yield from align_rows(rows, right=True)


def comparison_lines(named: Sequence[tuple[str, Sequence[ScoredRun]]]) -> Iterator[str]:
    """Yield the difference of means between each later group and the first.

    After `±` stand both standard deviations over seeds.

    Raises:
        ConfigurationError: the groups were scored on different sets.
    """
    (base, first), *others = named
    if len(sets := {run.scores["set"] for _, runs in named for run in runs}) > 1:
        raise ConfigurationError(
            f"a comparison needs scores on one set, got {len(sets)}: {', '.join(sorted(sets))}"
        )
    for name, runs in others:
        for metric in first[0].metrics:
            scores, base_scores = (
                [run.metrics[metric] for run in group] for group in (runs, first)
            )
            yield f"{name} - {base}: {metric} {difference_text(scores, base_scores, 4)}"
