"""Figures of one loader in this process, in which nothing else has run."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from numpy.typing import NDArray

from benchmarks.peers.clozeline import ROUND, Ours, elastic
from benchmarks.peers.workload import BATCH, Loader, marks, numbers

WINDOW = 1_920
"""Batches of a window of a loader that does not load rounds of blocks ahead."""
OUR_WINDOW = 12 * ROUND
"""The same of ours: 12 rounds of blocks. What a stream has loaded ahead when a window begins is not paid for in it;
of two rounds that can be one, and on a busy machine the best of such windows would show half of the price."""
_SECONDS = 6.0
_WINDOWS = 2
RESUMED_AT = (1, 50, 99)
"""Per cent of an epoch at which a new object continues from a state."""


@dataclass
class Epoch:
    """The samples that one uninterrupted epoch delivered.

    Args:
        batches: sample numbers of each batch, -1 where a row is not what was written.
        states: by per cent of the epoch, the batches delivered until then, and the state.
    """

    batches: list[NDArray[np.int64]] = field(default_factory=list)
    states: dict[int, tuple[int, Any]] = field(default_factory=dict)


def measure(case: type[Loader], folder: Path, expected: NDArray[np.int64], workers: int) -> dict[str, float]:
    """Measure one case; return figures by name.

    Args:
        case: the loader.
        folder: of its samples.
        expected: `marks` of every sample.
        workers: processes to read with; above 0 only the samples a second are measured.
    """
    torch.set_num_threads(1)
    begun = time.perf_counter()
    case.load()
    found = {"import": time.perf_counter() - begun}
    imported, begun = _resident(), time.perf_counter()
    loader = case(folder, None, workers)
    batches = iter(loader)
    first = next(batches)
    found["first"] = time.perf_counter() - begun
    if workers:
        del batches
        return _throughput(loader)
    epoch = _uninterrupted(loader, chain([first], batches), expected)
    found |= _counts("epoch", epoch.batches, len(expected))
    found |= _throughput(loader)
    found |= {"rss": _resident(), "rss_beyond_imports": _resident() - imported}
    del loader, batches
    found |= _resumed(case, folder, epoch, len(expected))
    if issubclass(case, Ours):
        found |= elastic(folder / case.codec, epoch.batches)
    return found


def _uninterrupted(loader: Loader, batches: Any, expected: NDArray[np.int64]) -> Epoch:
    """Read an epoch, compare its rows with those written, and take states on the way."""
    epoch = Epoch()
    places = {max(1, len(expected) // BATCH * percent // 100): percent for percent in RESUMED_AT}
    for number, batch in enumerate(batches, 1):
        found = numbers(batch)
        right = marks(batch.numpy()) == np.take(expected, found, mode="clip")
        epoch.batches.append(np.where(right, found, -1))
        if number in places:
            epoch.states[places[number]] = number, json.dumps(loader.state(), default=int)
    return epoch


def _throughput(loader: Loader) -> dict[str, float]:
    """Measure CPU microseconds a sample and samples a second over whole epochs: mean and best window."""
    batches, window = chain.from_iterable(repeat(loader)), OUR_WINDOW if isinstance(loader, Ours) else WINDOW
    cpu: list[float] = []
    wall: list[float] = []
    begun = time.perf_counter()
    while len(wall) < _WINDOWS or time.perf_counter() - begun < _SECONDS:
        clocks, rows = (time.process_time(), time.perf_counter()), 0
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


def _resumed(case: type[Loader], folder: Path, epoch: Epoch, samples: int) -> dict[str, float]:
    """Resume a new object from each state: measure its first batch; in the middle, read all that follows."""
    found: dict[str, float] = {"identical": 1.0}
    for percent, (done, text) in epoch.states.items():
        begun = time.perf_counter()
        batches = iter(case(folder, json.loads(text)))
        follow = [numbers(batch) for batch in islice(batches, 1)]  # none, if all that was left is lost
        found[f"resume_{percent}"] = time.perf_counter() - begun
        if percent == 50:
            follow += [numbers(batch) for batch in batches]
            found |= _counts("resumed", epoch.batches[:done] + follow, samples)
            found |= {"state_bytes": float(len(text))}
        del batches
        rest = epoch.batches[done:] if percent == 50 else epoch.batches[done : done + 1]
        same = len(rest) == len(follow) and all(map(np.array_equal, rest, follow))
        found["identical"] = min(found["identical"], float(same))
    return found


def _counts(what: str, batches: list[NDArray[np.int64]], samples: int) -> dict[str, float]:
    """Count samples delivered, delivered more than once, and not delivered."""
    delivered = np.concatenate(batches)
    seen = np.bincount(delivered[delivered >= 0], minlength=samples)
    return {
        f"{what}_delivered": float(seen.sum()),
        f"{what}_repeated": float((seen > 1).sum()),
        f"{what}_missing": float((seen == 0).sum()),
    }


def _resident() -> float:
    """Return resident memory of this process, MiB."""
    return float(psutil.Process().memory_info().rss / 2**20)
