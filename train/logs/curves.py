"""Draw the curves of one or several runs on shared axes, for report.html and other pages."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Final

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.report.html_page import Viewed
from clozeline.report.recorded_series import RecordedSeries, read_points
from clozeline.report.views import Chart, Section, Series, Table, merge_equal
from clozeline.train.data.sets.recorded_sets import read_sets
from clozeline.train.logs.display import format_count, heldout_title
from clozeline.train.logs.figures import Record, figures_of, last_heldout
from clozeline.train.logs.json_lines import read_lines

AXES: Final = {
    "step": "step",
    "tokens": "tokens",
    "seconds": "seconds of training",
    "flops": "FLOPs",
}
"""Axes of losses with their titles; `read_run` adds `seconds` to the records."""
_MIB: Final = 2**20
_STEP_CHARTS: Final = (
    RecordedSeries(name="Gradient norm before clipping", keys=("gradient_norm",)),
    RecordedSeries(name="Learning rate", keys=("learning_rate",)),
    RecordedSeries(name="Tokens per second, all ranks", keys=("tokens_per_s",)),
    RecordedSeries(name="Model FLOPs utilization", keys=("mfu",), unit="%", factor=100.0),
    RecordedSeries(
        name="Time waiting for data", keys=("stream", "waited_share"), unit="%", factor=100.0
    ),
    RecordedSeries(
        name="Resident memory of rank 0", keys=("memory_bytes",), unit="MiB", factor=1 / _MIB
    ),
    RecordedSeries(
        name="Memory of the accelerator of rank 0",
        keys=("device_bytes",),
        unit="MiB",
        factor=1 / _MIB,
    ),
)
"""Charts over steps of every run; hooks declare theirs, and a start of the run records them."""
_FINGERPRINT_LETTERS: Final = 8
"""Letters of a tokenizer's fingerprint that tell it from others."""


@dataclass(frozen=True, repr=False)
class RecordedRun(Viewed):
    """The records of a run; a notebook shows its final numbers and its losses."""

    name: str
    records: Sequence[Record]
    task: str = ""
    """objectives, unit of the mean and tokenizer; only losses of runs with the same can be
    compared"""
    charts: Sequence[RecordedSeries] = ()
    """charts that its hooks declared"""

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {text}" for name, text in self.figures())
        return f"RecordedRun({self.name}: {figures or 'no record yet'})"

    def figures(self) -> list[tuple[str, str]]:
        """Return titles and texts of the last and best figures."""
        figures = figures_of(self.records, self.charts)
        return [(title, figure.text) for title, figure in figures.items()]

    def view(self) -> Section:
        """Return the figures and the losses."""
        figures = Table("", (), self.figures())
        return Section(f"run {self.name}", [figures, next(_losses([self], "step", alone=True))])


def open_run(directory: Path | str) -> RecordedRun:
    """Open the records of a training run by its output folder.

    Raises:
        ConfigurationError: the folder holds no run.
    """
    folder = Path(directory)
    if not (folder / "metrics.jsonl").is_file():
        raise ConfigurationError(
            f"{folder} is not a run: it has no metrics.jsonl; give the `output` of a training, "
            "such as runs/demo"
        )
    return read_run(folder, folder.resolve().name)


def read_run(directory: Path, name: str) -> RecordedRun:
    """Read the records of a run, and add the seconds of training without pauses between starts."""
    records = [
        record
        for record in read_lines(directory / "metrics.jsonl")
        if isinstance(record.get("step"), int)
    ]

    starts = [
        event
        for event in read_lines(directory / "events.jsonl")
        if event.get("event") in ("start", "resume")
    ]

    # the time of training excludes pauses between starts
    times = [float(event["time"]) for event in starts if isinstance(event.get("time"), int | float)]
    return RecordedRun(
        name,
        list(_add_seconds(records, sorted(times))),
        _read_task(directory, starts),
        tuple(_declared_charts(starts)),
    )


def _declared_charts(starts: Sequence[Record]) -> Iterator[RecordedSeries]:
    """Yield each chart that hooks declared, once for all starts of the run."""
    known: set[RecordedSeries] = set()
    for event in starts:
        declared = event.get("charts")
        for entry in declared if isinstance(declared, list) else ():
            with suppress(ConfigurationError):  # a damaged event may have any content
                if (chart := validate(RecordedSeries, entry, "charts")) not in known:
                    known.add(chart)
                    yield chart


def _read_task(directory: Path, starts: Sequence[Record]) -> str:
    """Return the objectives of a run, the unit of its mean losses, and its tokenizer, if known."""
    try:
        sets = read_sets(directory)
    except IntegrityError:
        return "runs without a readable sets.json"
    objectives = " + ".join(sorted({each.objective.label for each in sets}))
    units = "".join(
        dict.fromkeys(f", mean over {each['unit']}" for each in starts if "unit" in each)
    )
    return f"{objectives}{units}, tokenizer {sets[0].tokenizer.fingerprint[:_FINGERPRINT_LETTERS]}"


def group_by_task(runs: Sequence[RecordedRun]) -> dict[str, list[RecordedRun]]:
    """Return the runs by their task, in the order of the runs."""
    groups: dict[str, list[RecordedRun]] = {}
    for run in runs:
        groups.setdefault(run.task, []).append(run)
    return groups


def _add_seconds(records: Sequence[Record], starts: Sequence[float]) -> Iterator[Record]:
    """Add the seconds of training; `starts` are the times of the starts of the run, ascending."""
    total = 0.0
    last = float("-inf")
    for record in records:
        now = record.get("time")
        if isinstance(now, int | float):
            before = bisect_right(starts, now)
            since = max(last, starts[before - 1] if before else float("-inf"))
            total = total + (max(0.0, now - since) if since > float("-inf") else 0.0)
            last = now
        yield {**record, "seconds": total}


def curves(runs: Sequence[RecordedRun]) -> Iterator[Chart]:
    """Yield the charts of runs: losses of several runs over each of `AXES`, the rest over steps.

    Numbers that are equal at every step are one chart, which names all of them.
    """
    alone = len(runs) == 1
    groups = group_by_task(runs)
    for task, group in groups.items():
        of = f" of {task}" if len(groups) > 1 else ""
        for axis in ["step"] if alone else AXES:
            yield from _losses(group, axis, of, alone)
    drawn = (
        (chart.title, tuple(tuple(chart.points(run.records)) for run in runs))
        for chart in (*_STEP_CHARTS, *dict.fromkeys(chart for run in runs for chart in run.charts))
    )
    for title, points in merge_equal(drawn):
        yield Chart(
            title, [Series(run.name, p) for run, p in zip(runs, points, strict=True)], "step"
        )


def _series(runs: Sequence[RecordedRun], alone: str, axis: str, *keys: str) -> list[Series]:
    return [Series(alone or run.name, read_points(run.records, axis, *keys)) for run in runs]


def _losses(
    runs: Sequence[RecordedRun], axis: str, of: str = "", alone: bool = False
) -> Iterator[Chart]:
    """Yield training and held-out losses over one axis, and over steps also by head.

    `of` ends the titles.
    """
    x = AXES[axis]
    training = _series(runs, "training" if alone else "", axis, "loss")
    over = of if axis == "step" else f"{of} over {x}"

    if alone:
        sets = list(last_heldout(runs[0].records))
        losses = [replace(training[0], smooth=True)]
        for name in sets:
            losses += _series(runs, heldout_title(name), axis, "heldout", name, "loss")
        yield Chart(f"Loss{over}", losses, x, _entropies(runs, sets))
    else:
        yield Chart(f"Training loss (nats){over}", training, x)
        yield from heldout_losses(runs, axis, of)

    # by head, over steps
    heads = sorted(
        {head for run in runs for record in run.records for head in record.get("losses", {})}
    )
    if axis != "step" or len(heads) < 2:
        return
    by_head = {head: _series(runs, head if alone else "", axis, "losses", head) for head in heads}

    if alone:
        yield Chart("Loss by head", [*chain.from_iterable(by_head.values())], x)
    else:
        yield from (
            Chart(f"Training loss of {head} (nats){of}", series, x)
            for head, series in by_head.items()
        )


def heldout_losses(runs: Sequence[RecordedRun], axis: str, of: str = "") -> Iterator[Chart]:
    """Yield the loss on each held-out set over an axis, with the unigram entropy of its labels."""
    over = of if axis == "step" else f"{of} over {AXES[axis]}"
    names = dict.fromkeys(name for run in runs for name in last_heldout(run.records))
    for name in names:
        series = [
            Series(run.name, read_points(run.records, axis, "heldout", name, "loss"))
            for run in runs
        ]
        title = f"{heldout_title(name).capitalize()} loss (nats){over}"
        yield Chart(title, series, AXES[axis], _entropies(runs, [name]))


def _entropies(runs: Sequence[RecordedRun], sets: Sequence[str]) -> dict[str, float]:
    entropies: dict[str, float] = {}
    for run in runs:
        for name, result in last_heldout(run.records).items():
            if name in sets and result["unigram_entropy"]:
                entropies.setdefault(entropy_title(name, result), result["unigram_entropy"])
    return entropies


def entropy_title(name: str, result: Record) -> str:
    """Return the title of an entropy, with the number of predictions that it is over."""
    return (
        f"unigram entropy{heldout_title(name).removeprefix('held-out')} of {format_count(result)}"
    )
