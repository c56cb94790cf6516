"""How much of a round a rank may hold: many lanes on few ranks are for debugging, and must not take all memory."""

from __future__ import annotations

from typing import Final

from pipeline.shards import ShardSet

__all__ = ["rows_at_once"]

_FACTS: Final = 64  # bytes beside a row's columns: origin, weight, start and length of lists


def rows_at_once(shards: ShardSet, lanes: int, lane_rows: int, budget: int) -> int | None:
    """Lane rows of a round that may be loaded at once; None: all of them.

    Args:
        shards: the set.
        lanes: of the rank.
        lane_rows: of an epoch, for a round has no more.
        budget: bytes for what is loaded at once.

    Example: rows of 1 KiB on 16,384 lanes take 17 MiB a lane row, so that 120 of a block's 1,920 fit into 2 GiB.
    """
    row_bytes = shards.manifest.max_block_bytes // int(shards.index.rows.max()) + _FACTS
    most = max(1, budget // (lanes * row_bytes))
    return None if most >= min(shards.manifest.block_rows, lane_rows) else most
