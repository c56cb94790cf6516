"""Read what each training of a race took until the target, and compare the entries with the baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import Any

from clozeline.errors import StorageError
from clozeline.tools.experiments.multirun.comparison import mean_text
from clozeline.tools.experiments.multirun.race_rules import HEAD, HELDOUT, Entry, Race
from clozeline.train.logs.json_lines import read_lines


@dataclass(frozen=True)
class Result:
    """The cost of a training: its steps, without its start, evaluations and saves."""

    target: float
    """held-out loss to be reached, in nats"""
    seconds: float
    """of all steps"""
    cpu_seconds: float
    """in which the processors of all ranks worked on them"""
    steps: int
    tokens: int
    flops: float
    loss: float
    """held-out loss at the end, in nats"""
    reached: bool


def result_of(run: Path, target: float) -> Result:
    """Return the result of a finished run, from its metrics up to the first evaluation at or below the target.

    Args:
        run: its folder.
        target: held-out loss to be reached, in nats.

    Raises:
        StorageError: the metrics lack a step or the last evaluation.
    """
    records = _complete(run)
    losses = _losses(records)
    end = next((step for step, loss in losses.items() if loss <= target), len(records))
    records, loss = records[:end], losses[end]
    last = records[-1]
    return Result(
        target=target,
        seconds=sum(sum(one["step_ms"].values()) for one in records) / 1e3,
        cpu_seconds=sum(float(one["cpu_s"]) for one in records),
        steps=last["step"],
        tokens=last["tokens"],
        flops=last["flops"],
        loss=loss,
        reached=loss <= target,
    )


def _complete(run: Path) -> list[dict[str, Any]]:
    """Return the metrics of all steps of a finished run."""
    records = read_lines(run / "metrics.jsonl")
    if [one.get("step") for one in records] != [*range(1, len(records) + 1)] or "heldout" not in records[-1]:
        raise StorageError(f"{run / 'metrics.jsonl'}: lacks steps or the last evaluation; remove {run} and start again")
    return records


def _losses(records: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """Return the held-out loss of each evaluated step."""
    return {one["step"]: float(one["heldout"][HELDOUT]["losses"][HEAD]) for one in records if "heldout" in one}


def target_of(runs: Sequence[Path]) -> float:
    """Return the target of a race: the loss that each run of the baseline reaches, in nats, rounded up to 0.01.

    Raises:
        StorageError: the metrics of a run lack a step or the last evaluation.
    """
    lowest = [min(_losses(_complete(run)).values()) for run in runs]
    return math.ceil(max(lowest) * 100) / 100


def standings(race: Race, half: str, results: Mapping[str, Sequence[Result]]) -> Iterator[str]:
    """Yield a line for each entry, means over its trainings; an entry counts if all of them reached the target."""
    target = results[race.baseline][0].target
    yield f"{race.title}: {target:g} nats on the {half} half of {race.heldout}; all seeds of {race.baseline} reach it"
    yield (
        f"{'entry':<16}{'reached':>9}{'loss':>8}{'steps':>8}{'tokens':>12}{'FLOPs':>10}{'seconds':>18}{'CPU s':>18}"
        f"{'faster':>9}{'by CPU':>9}{'by tokens':>11}"
    )
    for name, found in results.items():
        of = {field.name: _mean(found, field.name) for field in fields(Result)}
        reached = f"{sum(one.reached for one in found)} of {len(found)}"
        yield (
            f"{name:<16}{reached:>9}{of['loss']:>8.4f}{of['steps']:>8,.0f}{of['tokens']:>12,.0f}{of['flops']:>10.3g}"
            f"{mean_text([one.seconds for one in found], 1):>18}{mean_text([one.cpu_seconds for one in found], 1):>18}"
            + "".join(f"{cell:>{width}}" for cell, width in zip(_faster(race, results, name), (9, 9, 11), strict=True))
        )


def record_line(
    race: Race, name: str, entry: Entry, results: Mapping[str, Sequence[Result]], when: tuple[str, str], command: str
) -> str:
    """Return the line of docs/records.md for an entry that reached the target with every seed.

    Args:
        race: its facts.
        name: of the entry.
        entry: what it is.
        results: of all entries.
        when: date and commit.
        command: that measured it.
    """
    found = results[name]
    cells = (
        *when, name, mean_text([one.seconds for one in found], 1), mean_text([one.cpu_seconds for one in found], 1),
        f"{_mean(found, 'tokens') / 1e6:.2f} M", " / ".join(_faster(race, results, name)), entry.said, f"`{command}`",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _mean(found: Sequence[Result], field: str) -> float:
    return fmean(float(getattr(one, field)) for one in found)


def _faster(race: Race, results: Mapping[str, Sequence[Result]], name: str) -> tuple[str, ...]:
    """Return how many times less than the baseline an entry takes: by the clock, the processors' seconds, tokens."""
    ours, theirs = results[name], results[race.baseline]
    reached = all(one.reached for one in (*ours, *theirs))
    return tuple(
        f"{_mean(theirs, field) / _mean(ours, field):.2f} x" if reached else ""
        for field in ("seconds", "cpu_seconds", "tokens")
    )
