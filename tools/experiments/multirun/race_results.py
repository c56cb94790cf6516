"""Read the cost of each training of a race until the target, and compare the entries with the baseline."""

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
    """Cost of a training: its steps, without startup, evaluations and saves."""

    target: float
    """target held-out loss, in nats"""
    seconds: float
    """total of all steps"""
    cpu_seconds: float
    """CPU time of all ranks during these steps"""
    steps: int
    tokens: int
    flops: float
    loss: float
    """final held-out loss, in nats"""
    reached: bool


def result_of(run: Path, target: float) -> Result:
    """Return the result of a finished run, from its metrics up to the first evaluation at or below the target."""
    records = _read_complete_metrics(run)
    losses = _heldout_losses(records)
    end = next((step for step, loss in losses.items() if loss <= target), len(records))
    records, loss = records[:end], losses[end]
    last = records[-1]
    return Result(
        target=target, seconds=sum(sum(record["step_ms"].values()) for record in records) / 1e3,
        cpu_seconds=sum(float(record["cpu_s"]) for record in records), steps=last["step"], tokens=last["tokens"],
        flops=last["flops"], loss=loss, reached=loss <= target,
    )  # fmt: skip


def _read_complete_metrics(run: Path) -> list[dict[str, Any]]:
    records = read_lines(run / "metrics.jsonl")
    if [record.get("step") for record in records] != [*range(1, len(records) + 1)] or "heldout" not in records[-1]:
        raise StorageError(f"{run / 'metrics.jsonl'}: lacks steps or the last evaluation; remove {run} and start again")
    return records


def _heldout_losses(records: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    evaluated = (record for record in records if "heldout" in record)
    return {record["step"]: float(record["heldout"][HELDOUT]["losses"][HEAD]) for record in evaluated}


def target_of(runs: Sequence[Path]) -> float:
    """Return the target of a race: the loss that all baseline runs reach, in nats, rounded up to 0.01."""
    lowest = [min(_heldout_losses(_read_complete_metrics(run)).values()) for run in runs]
    return math.ceil(max(lowest) * 100) / 100


def standings(race: Race, half: str, results: Mapping[str, Sequence[Result]]) -> Iterator[str]:
    """Yield a line per entry with means over its trainings; an entry counts if all of them reached the target."""
    target = results[race.baseline][0].target
    yield f"{race.title}: {target:g} nats on the {half} half of {race.heldout}; all seeds of {race.baseline} reach it"
    yield (
        f"{'entry':<16}{'reached':>9}{'loss':>8}{'steps':>8}{'tokens':>12}{'FLOPs':>10}{'seconds':>18}{'CPU s':>18}"
        f"{'faster':>9}{'by CPU':>9}{'by tokens':>11}"
    )
    for name, seed_results in results.items():
        means = {field.name: _mean_of(seed_results, field.name) for field in fields(Result)}
        reached = f"{sum(result.reached for result in seed_results)} of {len(seed_results)}"
        seconds, cpu_seconds = _mean_seconds(seed_results)
        factors = zip(_speedups(race, results, name), (9, 9, 11), strict=True)
        yield (
            f"{name:<16}{reached:>9}{means['loss']:>8.4f}{means['steps']:>8,.0f}{means['tokens']:>12,.0f}"
            f"{means['flops']:>10.3g}{seconds:>18}{cpu_seconds:>18}" + "".join(f"{cell:>{w}}" for cell, w in factors)
        )


def record_line(
    race: Race, name: str, entry: Entry, results: Mapping[str, Sequence[Result]], when: tuple[str, str], command: str
) -> str:
    """Return the line of docs/records.md for an entry that reached the target with every seed."""
    tokens, factors = f"{_mean_of(results[name], 'tokens') / 1e6:.2f} M", " / ".join(_speedups(race, results, name))
    cells = (*when, name, *_mean_seconds(results[name]), tokens, factors, entry.said, f"`{command}`")
    return f"| {' | '.join(cells)} |"


def _mean_seconds(results: Sequence[Result]) -> tuple[str, str]:
    """Return mean and deviation of wall and CPU seconds."""
    wall, cpu = zip(*((result.seconds, result.cpu_seconds) for result in results), strict=True)
    return mean_text(wall, 1), mean_text(cpu, 1)


def _mean_of(results: Sequence[Result], field: str) -> float:
    return fmean(float(getattr(result, field)) for result in results)


def _speedups(race: Race, results: Mapping[str, Sequence[Result]], name: str) -> tuple[str, ...]:
    """Return the baseline's cost divided by an entry's: wall time, CPU time, tokens."""
    ours, theirs = results[name], results[race.baseline]
    reached = all(result.reached for result in (*ours, *theirs))
    return tuple(
        f"{_mean_of(theirs, field) / _mean_of(ours, field):.2f} x" if reached else ""
        for field in ("seconds", "cpu_seconds", "tokens")
    )
