"""Arithmetic of what a corpus costs, from two samples of it.

CPU seconds of a stage are a line over the megabytes that it reads. The line goes through a sample
and a quarter of it, so what a stage takes at any size is not taken for work of the texts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from clozeline.pipeline.dedup.parts import count_ranges
from clozeline.pipeline.execution.plan import LEAST_UNIT_BYTES, MOST_UNITS


class Measurement(NamedTuple):
    """What a stage read, in MB, and its CPU seconds."""

    megabytes: float
    seconds: float


@dataclass(frozen=True)
class StageCost:
    """Cost of a stage: CPU seconds at any size, and for each megabyte that it reads.

    `most_megabytes` is the most that it reads, in one unit.
    """

    name: str
    sample: Measurement
    fixed: float
    per_megabyte: float
    most_megabytes: float = math.inf


@dataclass(frozen=True)
class Estimate:
    """What a stage takes for a corpus; `hours` are of all cores together."""

    name: str
    terabytes: float
    cpu_hours: float
    hours: float


@dataclass(frozen=True)
class NearEstimate:
    """What the passes of near-dedup after the signatures take.

    `memory` is of the largest unit of many, `union` of the unit that joins all pairs.
    """

    documents: float
    keys: float
    ranges: int
    written: float
    cpu_hours: float
    memory: float
    union: float


# `python -m benchmarks.near_dedup --documents 10000000`, 64 ranges, 2026-11-28, two busy cores;
# with one million documents, the unit of candidates had 56 MB instead of 137
_NEAR_DOCUMENTS: Final = 1e7
_NEAR_CPU_S: Final = 22.4
_NEAR_WRITTEN: Final = 1.08e9
_NEAR_KEYS: Final = 14
"""bands of the default, each with a key of a document"""
_BUNDLED_PIECES: Final = 8_192
"""pieces of a shuffle from which on a pass bundles them"""
_BASE_MEMORY: Final = 47e6
_MEMORY_PER_KEY: Final = 41.1
_UNION_BYTES: Final = 4
"""bytes of a document in the union, below 2**32 documents"""


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
    return max(1, min(MOST_UNITS, math.ceil(terabytes * 1e12 / LEAST_UNIT_BYTES)))


def estimate(costs: Sequence[StageCost], terabytes: float, cores: int) -> list[Estimate]:
    """Return what each stage takes for a corpus like the sample, whose first stage reads all of it.

    Each stage reads the share that it read of the sample. Units are not divided among cores: with
    one unit more than cores, a stage takes twice as long.
    """
    factor = terabytes * 1e6 / costs[0].sample.megabytes
    return [_estimate_stage(cost, factor, count_units(terabytes), cores) for cost in costs]


def _estimate_stage(cost: StageCost, factor: float, units: int, cores: int) -> Estimate:
    read = min(cost.sample.megabytes * factor, cost.most_megabytes)
    cpu_hours = (cost.fixed + cost.per_megabyte * read) / 3600
    units = 1 if math.isfinite(cost.most_megabytes) else units
    return Estimate(cost.name, read / 1e6, cpu_hours, cpu_hours * math.ceil(units / cores) / units)


def estimate_near(documents: float, units: int) -> NearEstimate:
    """Return what the clusters of that many documents take, if a fifth of them share a band key.

    CPU time and bytes are proportional to the documents, memory to the keys of a hash range. Bytes
    are those of the files between passes, without the signatures; bundles write them again.
    """
    factor = documents / _NEAR_DOCUMENTS
    ranges = count_ranges(units)
    keys = _NEAR_KEYS * documents
    bundled = units * ranges >= _BUNDLED_PIECES
    return NearEstimate(
        documents,
        keys,
        ranges,
        _NEAR_WRITTEN * factor * (1 + bundled),
        _NEAR_CPU_S * factor / 3600,
        _BASE_MEMORY + _MEMORY_PER_KEY * keys / ranges,
        _BASE_MEMORY + _UNION_BYTES * documents,
    )
