"""Curves of recorded runs, of one or of several on the same axes: the pictures of report.html and of compare_runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pipeline.charts import Series, areas, lines
from train.logs.display import counted, heldout_title
from train.logs.journal import read_lines

__all__ = [
    "AXES",
    "RecordedRun",
    "curves",
    "entropy_title",
    "heldout_losses",
    "last_heldout",
    "noise_scales",
    "parts_of_steps",
    "points",
    "read_run",
    "results",
]

Record = Mapping[str, Any]
AXES: Final = {"step": "step", "tokens": "tokens", "seconds": "seconds of training", "flops": "FLOPs"}
"""Axes of losses, with their titles. A record has all of them but `seconds`, which `read_run` adds."""
_MIB: Final = 2**20
_OVER_STEPS: Final = (
    ("Gradient norm before clipping", ("gradient_norm",), 1.0),
    ("Learning rate", ("learning_rate",), 1.0),
    ("Tokens a second, all ranks", ("tokens_per_s",), 1.0),
    ("Tokens a second with padding, all ranks", ("padded_tokens_per_s",), 1.0),
    ("Model FLOPs utilization (%)", ("mfu",), 100.0),
    ("Time waiting for data (%)", ("stream", "waited_share"), 100.0),
    ("Resident memory of rank 0 (MiB)", ("memory_bytes",), 1 / _MIB),
    ("Memory of the accelerator of rank 0 (MiB)", ("device_bytes",), 1 / _MIB),
)
"""Title, keys and factor of what is drawn over steps."""
_NOISE_WINDOW: Final = 100
"""Records of which the noise scale is a quotient of sums: that of a single step is mostly chance."""
_PARTS: Final = {
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "compute": "compute",
    "other": "other",
    "data": "waiting for data",
}
"""Parts of a step with their titles; `compute` is that of earlier versions."""


@dataclass(frozen=True)
class RecordedRun:
    """The records of a run, under a name."""

    name: str
    records: Sequence[Record]


def read_run(directory: Path, name: str) -> RecordedRun:
    """Read the records of a run and add the seconds of training up to each, pauses between starts left out.

    Raises:
        StorageError: the files cannot be read.
    """
    records = [one for one in read_lines(directory / "metrics.jsonl") if isinstance(one.get("step"), int)]
    begun = [
        float(event["time"])
        for event in read_lines(directory / "events.jsonl")
        if event.get("event") in ("start", "resume") and isinstance(event.get("time"), int | float)
    ]
    return RecordedRun(name, list(_with_seconds(records, sorted(begun))))


def _with_seconds(records: Sequence[Record], begun: Sequence[float]) -> Iterator[Record]:
    """Add the time since the record before, or since the start that lies between both."""
    total, last = 0.0, float("-inf")
    for record in records:
        now = record.get("time")
        if isinstance(now, int | float):
            before = bisect_right(begun, now)
            since = max(last, begun[before - 1] if before else float("-inf"))
            total, last = total + (max(0.0, now - since) if since > float("-inf") else 0.0), now
        yield {**record, "seconds": total}


def curves(runs: Sequence[RecordedRun]) -> Iterator[str]:
    """Yield the pictures that the records have figures for; losses over each of `AXES`."""
    for axis in AXES:
        yield from _losses(runs, axis)
    for title, keys, factor in _OVER_STEPS:
        series = [Series(_named(run, runs, keys[-1]), points(run, "step", *keys, factor=factor)) for run in runs]
        yield lines(title, series, "step")
    noise = [Series(_named(run, runs, "noise scale"), noise_scales(run)) for run in runs]
    yield lines(f"Gradient noise scale (rows), of {_NOISE_WINDOW} records", noise, "step")
    yield from (_time_of_steps(run, runs) for run in runs)


def _losses(runs: Sequence[RecordedRun], axis: str) -> Iterator[str]:
    """Yield the losses over one axis: in training and on held-out sets, and over steps also by head."""
    x = AXES[axis]
    over = "" if axis == "step" else f" over {x}"
    training = [Series(_named(run, runs, "training"), points(run, axis, "loss")) for run in runs]
    if len(runs) == 1:
        sets = list(last_heldout(runs[0].records))
        every = [*training, *(_heldout(runs[0], axis, name, heldout_title(name)) for name in sets)]
        yield lines(f"Loss (nats){over}", every, x, levels=_entropies(runs, sets))
    else:
        yield lines(f"Training loss (nats){over}", training, x)
        yield from heldout_losses(runs, axis)
    if axis != "step":
        return
    heads = sorted({head for run in runs for record in run.records for head in record.get("losses", {})})
    if len(heads) > 1 and len(runs) == 1:
        yield lines("Loss by head (nats)", [Series(head, points(runs[0], axis, "losses", head)) for head in heads], x)
    elif len(heads) > 1:
        for head in heads:
            yield lines(
                f"Training loss of {head} (nats)",
                [Series(run.name, points(run, axis, "losses", head)) for run in runs],
                x,
            )


def heldout_losses(runs: Sequence[RecordedRun], axis: str) -> Iterator[str]:
    """Yield the losses of runs on each held-out set over one of `AXES`, with the unigram entropy of its labels."""
    over = "" if axis == "step" else f" over {AXES[axis]}"
    for name in dict.fromkeys(name for run in runs for name in last_heldout(run.records)):
        series = [_heldout(run, axis, name, run.name) for run in runs]
        title = f"{heldout_title(name).capitalize()} loss (nats){over}"
        yield lines(title, series, AXES[axis], levels=_entropies(runs, [name]))


def _heldout(run: RecordedRun, axis: str, name: str, title: str) -> Series:
    return Series(title, points(run, axis, "heldout", name, "loss"))


def _entropies(runs: Sequence[RecordedRun], sets: Sequence[str]) -> dict[str, float]:
    """Return the unigram entropies of held-out sets by title; runs over the same labels share a line."""
    found: dict[str, float] = {}
    for run in runs:
        for name, result in last_heldout(run.records).items():
            if name in sets and result["unigram_entropy"]:
                found.setdefault(entropy_title(name, result), result["unigram_entropy"])
    return found


def entropy_title(name: str, result: Record) -> str:
    """Return the title of an entropy with the number of predictions it rests on: few have a lower one."""
    return f"unigram entropy{heldout_title(name).removeprefix('held-out')} of {counted(result)}"


def _named(run: RecordedRun, runs: Sequence[RecordedRun], alone: str) -> str:
    """Return the name of a series: of its run where there are several, else what it counts."""
    return run.name if len(runs) > 1 else alone


def _time_of_steps(run: RecordedRun, runs: Sequence[RecordedRun]) -> str:
    times = [Series(_PARTS[part], points(run, "step", "step_ms", part)) for part in parts_of_steps(run.records)]
    return areas(f"Time of a step{f' of {run.name}' if len(runs) > 1 else ''} (ms)", times, "step")


def parts_of_steps(records: Sequence[Record]) -> list[str]:
    """Return the parts of the time of steps that every timed record has, in the order they are drawn."""
    timed = [record["step_ms"] for record in records if isinstance(record.get("step_ms"), Mapping)]
    return [part for part in _PARTS if timed and all(part in one for one in timed)]


def points(run: RecordedRun, axis: str, *keys: str, factor: float = 1.0) -> list[tuple[float, float]]:
    """Return (x, value) of the records that have numbers there; a value that was not finite is null."""
    found: list[tuple[float, float]] = []
    for record in run.records:
        value: Any = record
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        x = record.get(axis)
        if isinstance(value, int | float) and isinstance(x, int | float):
            found.append((x, value if factor == 1.0 else value * factor))
    return found


def noise_scales(run: RecordedRun) -> list[tuple[float, float]]:
    """Return (step, noise scale in rows) of each full window; one in which noise hides the gradient is left out."""
    traces, squares = (points(run, "step", "gradient_noise", key) for key in ("trace", "square"))
    found = []
    for end in range(_NOISE_WINDOW, len(traces) + 1):
        trace, square = (sum(value for _, value in one[end - _NOISE_WINDOW : end]) for one in (traces, squares))
        if square > 0:
            found.append((traces[end - 1][0], trace / square))
    return found


def last_heldout(records: Sequence[Record]) -> dict[str, Any]:
    """Return the last results on held-out sets, by set."""
    return next((found for record in reversed(records) if (found := results(record))), {})


def results(record: Record) -> dict[str, Any]:
    """Return the results on held-out sets; those of a damaged line are left out."""
    found = record.get("heldout")
    if not isinstance(found, Mapping):
        return {}
    needed = {"loss", "unigram_entropy", "labels"}
    return {name: result for name, result in found.items() if isinstance(result, Mapping) and needed <= result.keys()}
