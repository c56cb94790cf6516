"""Measure one loader in this process, which must have run nothing else."""

import json
import time
from dataclasses import dataclass, field
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

from benchmarks.harness import resident_bytes

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.peers.clozeline import ROUND, Ours, read_elastically
from benchmarks.peers.workload import BATCH, Loader, checksums, sample_indices

WINDOW = 1_920
"""Batches in a window of a loader that does not load rounds of blocks ahead."""
OUR_WINDOW = 12 * ROUND
"""The same for ours: 12 rounds of blocks. A window does not pay for what was loaded before it
starts, which can be one round: in windows of two rounds, the best one on a busy machine would show
half of the cost."""
_SECONDS = 6.0
_WINDOWS = 2
RESUMED_AT = (1, 50, 99)
"""Percentages of an epoch at which a new object resumes from a state."""


@dataclass
class Epoch:
    """The samples that one uninterrupted epoch delivered.

    `batches` has the sample indices of each batch, -1 where a row differs from what was written;
    `states` the batches delivered and the state, by percentage of the epoch.
    """

    batches: list[NDArray[np.int64]] = field(default_factory=list)
    states: dict[int, tuple[int, Any]] = field(default_factory=dict)


def measure(
    case: type[Loader], folder: Path, expected: NDArray[np.int64], workers: int
) -> dict[str, float]:
    """Return figures of a loader on the samples in a folder.

    With `workers`, only the samples per second.
    """
    torch.set_num_threads(1)
    start = time.perf_counter()
    case.load()
    figures = {"import": time.perf_counter() - start}
    imported = _resident_mib()
    start = time.perf_counter()
    loader = case(folder, None, workers)
    batches = iter(loader)
    first = next(batches)
    figures["first"] = time.perf_counter() - start
    if workers:
        del batches
        return _measure_throughput(loader)

    epoch = _read_epoch(loader, chain([first], batches), expected)
    figures |= _count_samples("epoch", epoch.batches, len(expected))
    figures |= _measure_throughput(loader)
    figures |= {"rss": _resident_mib(), "rss_beyond_imports": _resident_mib() - imported}
    del loader, batches
    figures |= _resume(case, folder, epoch, len(expected))
    if issubclass(case, Ours):
        figures |= read_elastically(folder / case.codec, epoch.batches)
    return figures


def _read_epoch(loader: Loader, batches: Any, expected: NDArray[np.int64]) -> Epoch:
    epoch = Epoch()
    stops = {max(1, len(expected) // BATCH * percent // 100): percent for percent in RESUMED_AT}
    for number, batch in enumerate(batches, 1):
        indices = sample_indices(batch)
        intact = checksums(batch.numpy()) == np.take(expected, indices, mode="clip")
        epoch.batches.append(np.where(intact, indices, -1))
        if number in stops:
            epoch.states[stops[number]] = number, json.dumps(loader.state(), default=int)
    return epoch


def _measure_throughput(loader: Loader) -> dict[str, float]:
    """Measure CPU microseconds per sample and samples per second: mean and best window."""
    batches = chain.from_iterable(repeat(loader))
    window = OUR_WINDOW if isinstance(loader, Ours) else WINDOW
    cpu: list[float] = []
    wall: list[float] = []
    start = time.perf_counter()
    while len(wall) < _WINDOWS or time.perf_counter() - start < _SECONDS:
        clocks = (time.process_time(), time.perf_counter())
        rows = 0
        for batch in islice(batches, window):
            rows += len(batch)
        cpu.append((time.process_time() - clocks[0]) / rows * 1e6)
        wall.append((time.perf_counter() - clocks[1]) / rows)

    return {
        "least_cpu": min(cpu),
        "cpu": float(np.mean(cpu)),
        "best_rate": 1 / min(wall),
        "rate": 1 / float(np.mean(wall)),
    }


def _resume(case: type[Loader], folder: Path, epoch: Epoch, samples: int) -> dict[str, float]:
    """Resume from each state and measure the first batch; at 50 %, read the rest of the epoch."""
    figures: dict[str, float] = {"identical": 1.0}

    for percent, (done, text) in epoch.states.items():
        start = time.perf_counter()
        batches = iter(case(folder, json.loads(text)))
        # none, if the rest is lost
        follow = [sample_indices(batch) for batch in islice(batches, 1)]
        figures[f"resume_{percent}"] = time.perf_counter() - start

        if percent == 50:
            follow += [sample_indices(batch) for batch in batches]
            figures |= _count_samples("resumed", epoch.batches[:done] + follow, samples)
            figures |= {"state_bytes": float(len(text))}

        del batches
        rest = epoch.batches[done:] if percent == 50 else epoch.batches[done : done + 1]
        same = len(rest) == len(follow) and all(map(np.array_equal, rest, follow))
        figures["identical"] = min(figures["identical"], float(same))

    return figures


def _count_samples(what: str, batches: list[NDArray[np.int64]], samples: int) -> dict[str, float]:
    delivered = np.concatenate(batches)
    seen = np.bincount(delivered[delivered >= 0], minlength=samples)
    return {
        f"{what}_delivered": float(seen.sum()),
        f"{what}_repeated": float((seen > 1).sum()),
        f"{what}_missing": float((seen == 0).sum()),
    }


def _resident_mib() -> float:
    return resident_bytes() / 2**20
