"""Foresee what a plan costs: pieces between passes, opens, disk and memory. Refuse what cannot be run."""

from collections.abc import Sequence
from typing import Any, Final

import psutil

from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.exchange import Exchange
from clozeline.pipeline.execution.free_space import size_text
from clozeline.pipeline.execution.plan import MOST_UNITS, Plan
from clozeline.pipeline.execution.stages import Stage
from clozeline.pipeline.recipe import Recipe

MOST_PIECES: Final = 10**10
"""Pieces of an exchange: each takes 24 bytes of an index and some 50 microseconds to write and read."""
_BASE_BYTES: Final = 300e6
_PER_SHARD_BYTE: Final = 3.0
"""Memory of a worker: Python with its libraries, and the documents of a shard, which `encode` sorts."""


def check_plan_size(recipe: Recipe, plan: Plan, stages: Sequence[Stage[Any, Any]]) -> None:
    """Raise ConfigurationError where an exchange has too many pieces, or a shard does not fit into this machine."""
    for stage in stages:
        worst = max(stage.exchanges(), key=lambda exchange: exchange.pieces, default=None)
        if worst is not None and worst.pieces > MOST_PIECES:
            raise ConfigurationError(
                f"plan: {len(plan.units):,} units and {plan.shards:,} shards make {worst.pieces:,} pieces between two "
                f"passes of '{stage.name}', expected at most {MOST_PIECES:,}: leave plan.unit_bytes and "
                f"plan.shard_bytes out, or set both to {-(-plan.bytes // MOST_UNITS):,}"
            )
    memory, present = worker_memory(plan), psutil.virtual_memory().total
    if recipe.executor.name == "local" and memory > present and any(stage.name == "encode" for stage in stages):
        raise ConfigurationError(
            f"plan.shard_bytes: a worker needs about {size_text(memory)} for a shard of "
            f"{size_text(plan.bytes / plan.shards)}, this machine has {size_text(present)}: set it to "
            f"{int(max(0.0, present / 2 - _BASE_BYTES) / _PER_SHARD_BYTE):,} or less"
        )


def worker_memory(plan: Plan) -> float:
    """Return about how many bytes of memory a worker needs for a shard."""
    return _BASE_BYTES + _PER_SHARD_BYTE * plan.bytes / plan.shards


def foreseen_disk(plan: Plan, stages: Sequence[Stage[Any, Any]]) -> int:
    """Return about how many bytes all stages write, as each is estimated from the largest stage before it."""
    largest, total = 0.0, 0.0
    for stage in stages:
        size = stage.expansion() * (largest or plan.bytes)
        largest, total = max(largest, size), total + size
    return round(total)


def exchange_text(exchanges: Sequence[Exchange]) -> str:
    """Return the pieces and opens of a stage's exchanges: `; 4,096 pieces, 128 opens`; "" where it has none."""
    if not exchanges:
        return ""
    pieces, opens = (sum(getattr(each, name) for each in exchanges) for name in ("pieces", "opens"))
    return f"; {pieces:,} pieces between passes, {opens:,} opens"
