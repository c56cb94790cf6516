"""Arithmetic of what a corpus costs, from two samples of it.

CPU seconds of a stage are a line over the megabytes that it reads. The line goes through a sample
and a quarter of it, so what a stage takes at any size is not taken for work of the texts.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clozeline.pipeline.execution.plan import LEAST_BYTES, MOST_UNITS


class Measurement(NamedTuple):
    """What a stage read, in MB, and its CPU seconds."""

    megabytes: float
    seconds: float


@dataclass(frozen=True)
class StageCost:
    """Cost of a stage: CPU seconds at any size, and for each megabyte that it reads.

    `most_megabytes` is the most that it reads, in one unit. `held` is what one process held for the
    sample, and `most_held` the amount at which the stage refuses.
    """

    name: str
    sample: Measurement
    fixed: float
    per_megabyte: float
    most_megabytes: float = math.inf
    held: int = 0
    most_held: float = math.inf


@dataclass(frozen=True)
class Estimate:
    """What a stage takes for a corpus; `hours` are of all cores, and None if it refuses."""

    name: str
    terabytes: float
    cpu_hours: float | None
    hours: float | None
    reason: str = ""


def fit_line(part: Measurement, whole: Measurement) -> tuple[float, float]:
    """Return the CPU seconds at any size, and those of each megabyte.

    Two samples of equal size have no line: then all seconds are of the megabytes.

    Example: 4 s for 2 MB and 10 s for 8 MB are 2 s, and 1 s for each megabyte.
    """
    more = Measurement(whole.megabytes - part.megabytes, whole.seconds - part.seconds)
    if min(more) <= 0:
        return 0.0, whole.seconds / max(whole.megabytes, 1e-9)
    slope = more.seconds / more.megabytes
    return max(0.0, whole.seconds - slope * whole.megabytes), slope


def keep_fastest(
    first: Mapping[str, Measurement], second: Mapping[str, Measurement]
) -> dict[str, Measurement]:
    """Return the faster of two measurements of each stage; the first may lack stages."""
    return {
        name: min(first.get(name, measured), measured, key=lambda each: each.seconds)
        for name, measured in second.items()
    }


def fit_costs(
    part: Mapping[str, Measurement], whole: Mapping[str, Measurement]
) -> dict[str, StageCost]:
    """Return the cost of each stage."""
    return {
        name: StageCost(name, measured, *fit_line(part[name], measured))
        for name, measured in whole.items()
    }


def count_units(terabytes: float) -> int:
    """Return the units of a corpus with the default sizes of the plan."""
    return max(1, min(MOST_UNITS, math.ceil(terabytes * 1e12 / LEAST_BYTES)))


def estimate(costs: Sequence[StageCost], terabytes: float, cores: int) -> list[Estimate]:
    """Return what each stage takes for a corpus like the sample, whose first stage reads all of it.

    Each stage reads the share that it read of the sample. Units are not divided among cores: with
    one unit more than cores, a stage takes twice as long.
    """
    factor = terabytes * 1e6 / costs[0].sample.megabytes
    return [_estimate_stage(cost, factor, count_units(terabytes), cores) for cost in costs]


def _estimate_stage(cost: StageCost, factor: float, units: int, cores: int) -> Estimate:
    held = cost.held * factor
    read = min(cost.sample.megabytes * factor, cost.most_megabytes)
    if held > cost.most_held:
        reason = f"refused: {held:.2g} rows in one process, at most {cost.most_held:.2g}"
        return Estimate(cost.name, read / 1e6, None, None, reason)
    cpu_hours = (cost.fixed + cost.per_megabyte * read) / 3600
    units = 1 if math.isfinite(cost.most_megabytes) else units
    return Estimate(cost.name, read / 1e6, cpu_hours, cpu_hours * math.ceil(units / cores) / units)


def add_estimates(estimates: Iterable[Estimate]) -> tuple[float | None, float | None]:
    """Return the CPU hours and the hours of all stages; None if one refuses."""
    cpu_hours = 0.0
    hours = 0.0
    for each in estimates:
        if each.cpu_hours is None or each.hours is None:
            return None, None
        cpu_hours += each.cpu_hours
        hours += each.hours
    return cpu_hours, hours
