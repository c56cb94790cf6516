"""Foresee what a plan costs: pieces between passes, opens, disk and memory. Refuse what cannot be run.

A stage writes about as much as the one before it: in a run on pages of English novels, 0.6 to 1.1 times as much, if it
drops no document. What its own finished units wrote says it better.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.execution.exchange import Exchange
from clozeline.pipeline.execution.plan import MOST_UNITS, Plan
from clozeline.pipeline.execution.stages import Stage
from clozeline.pipeline.recipe import ExecutorConfig, Recipe
from clozeline.report.axis_units import size_text

MOST_PIECES: Final = 10**10
"""Pieces of an exchange: each takes 24 bytes of an index and some 50 microseconds to write and read."""
_BASE_BYTES: Final = 300e6
"""Memory of Python and its libraries."""
_PER_INPUT_BYTE: Final = 6.0
_PER_DOCUMENT_BYTE: Final = 15.0
"""Memory for each byte of a shard: of JSON lines that are all kept, and of documents as stages store them. 300 MB of
lines made 117 MB of documents, and encode took 2.0 GB for their 86 million tokens."""
_LEAST_KEPT: Final = 0.005
"""Share of an input that is kept at least: strict filters keep about a hundredth of a crawl."""
_LEAST_SHARE: Final = 0.5
"""Share of the estimate that a shard of known documents takes at least."""
_LEAST_SHARD: Final = 4096
"""Smallest `plan.shard_bytes`."""


def check_plan_size(plan: Plan, stages: Sequence[Stage[Any, Any]]) -> None:
    """Raise ConfigurationError where an exchange has too many pieces."""
    for stage in stages:
        worst = max(stage.exchanges(), key=lambda exchange: exchange.pieces, default=None)
        if worst is not None and worst.pieces > MOST_PIECES:
            raise ConfigurationError(
                f"plan: {len(plan.units):,} units and {plan.shards:,} shards make {worst.pieces:,} pieces between two "
                f"passes of '{stage.name}', expected at most {MOST_PIECES:,}: leave plan.unit_bytes and "
                f"plan.shard_bytes out, or set both to {-(-plan.bytes // MOST_UNITS):,}"
            )


def worker_memory(plan: Plan, documents: int | None = None) -> float:
    """Return about how many bytes of memory a worker needs for a shard, which `encode` sorts.

    `documents` are the bytes of the documents to encode; None: not known yet, and all of the input may be kept.
    """
    shards = _PER_INPUT_BYTE * plan.bytes if documents is None else _PER_DOCUMENT_BYTE * documents
    return _BASE_BYTES + shards / plan.shards


def check_memory(recipe: Recipe, plan: Plan, documents: int | None = None) -> str:
    """Return a warning if `encode` may need more memory than its workers have, or "".

    Before its documents are known, nearly all of the input may be dropped; a preview (`limit`) is not foreseen.

    Raises:
        ConfigurationError: it certainly needs more.
    """
    room = None if documents is None and recipe.limit is not None else _worker_room(recipe.executor, plan)
    needed, least = worker_memory(plan, documents), _LEAST_KEPT if documents is None else _LEAST_SHARE
    if room is None or needed <= room.bytes:
        return ""
    condition = " if no document is dropped" if documents is None else ""
    fitting = int((room.bytes - _BASE_BYTES) / max(1.0, needed - _BASE_BYTES) * plan.bytes / plan.shards)
    smaller = f", or set plan.shard_bytes to {fitting:,} or less" if fitting >= _LEAST_SHARD else ""
    said = (
        f"memory: a worker of 'encode' needs about {size_text(needed)}{condition}, got {size_text(room.bytes)}, "
        f"{room.source}: {room.remedy}{smaller}"
    )
    if room.enforced and least * (needed - _BASE_BYTES) > room.bytes:
        raise ConfigurationError(said)
    return said


@dataclass(frozen=True, slots=True)
class _Room:
    """Memory of a worker, what it follows from, how to get more, and whether a worker that takes more must fail."""

    bytes: float
    source: str
    remedy: str
    enforced: bool = True


def _worker_room(executor: ExecutorConfig, plan: Plan) -> _Room | None:
    """Return the memory that each worker has; None where the executor does not tell."""
    options = executor.chosen().options
    if executor.name == "local":
        workers = min(executor.workers or os.cpu_count() or 1, executor.tasks, plan.shards)
        memory = psutil.virtual_memory().total
        source = f"a share of this machine's {size_text(memory)} among {workers} worker{'s' * (workers > 1)}"
        return _Room(memory / workers, source, "lower executor.workers" if workers > 1 else "use a larger machine")
    per_core = getattr(options, "mem_per_cpu_gb", None)
    if per_core is None or any(name.startswith("mem") for name in getattr(options, "sbatch_args", ())):
        return None
    source = f"executor.options.mem_per_cpu_gb ({per_core:g}) x cpus_per_task ({options.cpus_per_task:g})"
    # Ray only reserves memory: an actor may take more
    return _Room(per_core * options.cpus_per_task * 2**30, source, "raise one of them", executor.name != "ray")


def foreseen_disk(plan: Plan, stages: Sequence[Stage[Any, Any]]) -> int:
    """Return about how many bytes all stages write if no document is dropped, each estimated from the one before it."""
    before, total = float(plan.bytes), 0.0
    for stage in stages:
        size = stage.expansion() * before
        before, total = size or before, total + size
    return round(total)


def exchange_text(exchanges: Sequence[Exchange]) -> str:
    """Return the pieces and opens of a stage's exchanges: `; 4,096 pieces, 128 opens`; "" where it has none."""
    if not exchanges:
        return ""
    pieces, opens = (sum(getattr(each, name) for each in exchanges) for name in ("pieces", "opens"))
    return f"; {pieces:,} pieces between passes, {opens:,} opens"


def free_bytes(folder: Path) -> int:
    """Return the free bytes of the file system of a folder, which need not exist yet."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    return shutil.disk_usage(existing).free


def check_free_space(name: str, folder: Path, expected: int, least: int = 0) -> str:
    """Return a warning if a stage may need more than the free space, or "".

    `expected` is about what it writes, or most if it may drop documents; `least` is what it writes in any case.

    Raises:
        StorageError: there is less than that.
    """
    free = free_bytes(folder)
    if free >= expected:
        return ""
    needed = f"{'' if least else 'up to '}about {size_text(expected)}"
    sizes = f"{name}: expected {needed} to write into {folder}, got {size_text(free)} of free space"
    if free < least:
        raise StorageError(
            f"{sizes}: free some, or move the folder to a larger disk and set `output` to it; finished units are kept"
        )
    return f"{sizes}: it may not be enough; set `output` to a larger disk, or give fewer files as `input`"
