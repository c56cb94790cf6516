"""Score fine-tuned runs of one task with several seeds, and print tables of the scores."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

from clozeline.checksummed_json import verify_checksum
from clozeline.errors import ConfigurationError, IntegrityError, plural
from clozeline.extensions.tasks.readers import TaskMetadata
from clozeline.extensions.tasks.score_notes import note_few_items
from clozeline.files import parse_json
from clozeline.terminal import align_rows


def mean_text(values: Sequence[float], digits: int) -> str:
    """Return `mean ± deviation`, or just the mean of a single value.

    The deviation is the sample standard deviation (n - 1).
    """
    deviation = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{deviation}"


def difference_text(first: Sequence[float], second: Sequence[float], digits: int) -> str:
    """Return the mean of one group of runs minus the mean of another.

    After `±` stands the sum of both standard deviations over seeds.

    A difference within that sum says nothing: the ranges mean ± deviation overlap. With one run in
    a group, nothing is known about its seeds, and the text says so.

    Example:
        >>> difference_text([0.9, 0.92], [0.8, 0.82], 2)
        '+0.10 ± 0.03'
    """
    difference = f"{fmean(first) - fmean(second):+.{digits}f}"
    if min(len(first), len(second)) < 2:
        return f"{difference} (one seed)"
    return f"{difference} ± {stdev(first) + stdev(second):.{digits}f}"


_SCORES_FOLDER: Final = "scores"
"""Folder, next to the runs, of the files with their scores."""
_BASELINES: Final = {
    "majority": "always giving the most frequent answer",
    "words": "counting words",
    "most_frequent_tag": "giving each word its most frequent tag",
}
"""What baselines do, by name."""
BENCHMARKS: Final[Mapping[str, frozenset[str]]] = {
    "GLUE": frozenset(("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")),
    "SuperGLUE": frozenset(("boolq", "cb", "copa", "multirc", "record", "rte", "wic", "wsc")),
}
"""Tasks that GLUE (arXiv 1804.07461) and SuperGLUE (arXiv 1905.00537) average."""


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
    scores = scores_path(folder, split, 0).parent
    runs = []

    for path in sorted(scores.glob("seed-*.json")):
        try:
            stored = verify_checksum(parse_json(path.read_bytes()), path)
        except (OSError, ValueError) as error:
            reason = f"is damaged ({error}); remove it, and the same command scores that seed again"
            raise IntegrityError(f"{path}: {reason}") from error
        runs.append(ScoredRun(stored["scores"], TaskMetadata.from_dict(stored["facts"])))

    if not runs:
        raise ConfigurationError(
            f"{folder}: expected an output of clozeline finetune with scores, got none"
        )

    if len({run.scores["set"] for run in runs}) > 1:
        raise ConfigurationError(
            f"{scores}: the seeds were scored on different sets; remove the old ones"
        )

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


def metric_lines(scores: Sequence[Mapping[str, Any]], single: str = "") -> Iterator[str]:
    """Yield each metric of runs that were scored on the same rows, next to its baselines.

    Means ± deviation over runs, or a value and the note `single`; below a baseline it is marked.
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
        below = first["below"][metric]
        if len(scores) > 1:
            below = [name for name, value in baselines.items() if fmean(values) < value]
            single = ""
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


def advice_lines(runs: Sequence[ScoredRun], rows: int, given: Sequence[str] = ()) -> list[str]:
    """Return what to do about runs whose first metric is below a baseline.

    Nothing if it is above all of them.

    Args:
        runs: the scored seeds so far.
        rows: labeled rows that they were trained on.
        given: keys of the training that were given, rather than left to follow rows and width.
    """
    metric = next(iter(runs[0].metrics))
    mean = fmean(run.metrics[metric] for run in runs)
    baselines = {name: values[metric] for name, values in runs[0].scores["baselines"].items()}
    better = {name: value for name, value in baselines.items() if mean < value}
    if not better:
        return []
    name = max(better, key=lambda baseline: better[baseline])
    meant = f"{_BASELINES[name]} ({name})" if name in _BASELINES else f"the baseline {name}"
    seeds = f"seed {runs[0].scores['seed']}" if len(runs) == 1 else f"mean of {len(runs)} seeds"
    helps = (
        f"more labeled rows than these {rows:,}, a larger body, or one that was trained on more "
        "text"
    )
    lines = [
        f"worse than {meant}: {metric} {mean:.4f} against {better[name]:.4f}, {seeds}",
        f"what helps: {helps}. Where none is at hand, use the baseline: it needs no body",
    ]

    if given:
        verb = "follows" if len(given) == 1 else "follow"
        lines.append(
            f"{' and '.join(given)}, which you gave, {verb} rows and width without a value"
        )

    return lines


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


def task_score(by_split: Mapping[str, Sequence[ScoredRun]]) -> float:
    """Return the score of a task: the mean of its metrics over the seeds.

    MNLI is averaged over both dev sets, too.
    """
    runs = [run for of_split in by_split.values() for run in of_split]
    return fmean(run.metrics[metric] for run in runs for metric in run.facts.metrics)


def average_lines(named: Sequence[tuple[str, Mapping[str, Sequence[ScoredRun]]]]) -> Iterator[str]:
    """Yield the score of each task, and the mean of each benchmark with all its tasks.

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
            raise ConfigurationError(
                f"{name}: the task {task} is there twice; name one folder for each task"
            )
        shown_splits = dict(by_split) if task == "mnli" else {"dev": runs}
        scores[task] = task_score(shown_splits)
        metrics = ", ".join(runs[0].facts.metrics)
        splits = f" on {', '.join(shown_splits)}" if len(shown_splits) > 1 else ""
        yield f"  {task:<12}{100 * scores[task]:6.2f}  {metrics}{splits}, seeds {len(runs)}"

    fitting = {name: tasks for name, tasks in BENCHMARKS.items() if scores.keys() <= tasks}
    if not fitting:
        yield f"mean of {len(scores)} tasks {100 * fmean(scores.values()):.2f}"
    for name, tasks in fitting.items():
        lacking = ", ".join(sorted(tasks - scores.keys()))
        note = (
            f"{len(scores)} of its {len(tasks)} tasks, without {lacking}"
            if lacking
            else f"all {len(tasks)} tasks"
        )
        yield f"{name}: mean of {note}: {100 * fmean(scores.values()):.2f}"
