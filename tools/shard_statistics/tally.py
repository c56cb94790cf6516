"""Counts over all rows of a set, block by block; whatever is asked later follows from these arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.example import Rows
from pipeline.shards import ShardSet
from pipeline.shards.columns import holds_ids
from tools.shard_statistics.sources import Sources

__all__ = ["Tally", "mean", "named", "quantile", "tally"]

Counts = NDArray[np.int64]


@dataclass
class Tally:
    """Sums of a set.

    Args:
        lengths: by list column: how many rows have 0, 1, 2, ... values.
        ids: by column of token ids: how often each id occurs, shape [vocabulary].
        codes: by fixed column of codes (variant, language, ...): rows with code 0, 1, 2, ...
        tokens_by_language: tokens of the first column of ids by language code.
        tokens_by_source: the same by source label.
    """

    lengths: dict[str, Counts] = field(default_factory=dict)
    ids: dict[str, Counts] = field(default_factory=dict)
    codes: dict[str, Counts] = field(default_factory=dict)
    tokens_by_language: Counts = field(default_factory=lambda: np.zeros(0, np.int64))
    tokens_by_source: dict[str, int] = field(default_factory=dict)


def tally(shards: ShardSet, sources: Sources | None) -> Tally:
    """Count a whole set.

    Args:
        shards: the set.
        sources: the source of each document; None: sources are not counted.

    Raises:
        CorruptBlock: a block is not what the index says.
    """
    found = Tally()
    for block in range(len(shards.index)):
        _add(found, shards.read_block(block), shards, sources)
    return found


def _add(found: Tally, rows: Rows, shards: ShardSet, sources: Sources | None) -> None:
    size = shards.manifest.tokenizer.vocab_size
    for name, column in rows.columns.items():
        _grow(found.lengths, name, np.bincount(column.lengths))
    for name in (spec.name for spec in shards.columns if holds_ids(spec)):
        _grow(found.ids, name, np.bincount(rows.columns[name].values, minlength=size))
    for name in ("variant", "part", "copy", "language"):
        if name in rows.fixed:
            _grow(found.codes, name, np.bincount(rows.fixed[name]))
    if not found.ids:
        return
    tokens = rows.columns[next(iter(found.ids))].lengths
    by_language = np.bincount(rows.fixed["language"], tokens).astype(np.int64)
    found.tokens_by_language = _sum(found.tokens_by_language, by_language)
    if sources is not None:
        for name, count in sources.tokens(rows, tokens).items():
            found.tokens_by_source[name] = found.tokens_by_source.get(name, 0) + count


def _grow(table: dict[str, Counts], name: str, counts: NDArray[Any]) -> None:
    table[name] = _sum(table.get(name, np.zeros(0, np.int64)), counts.astype(np.int64))


def _sum(left: Counts, right: Counts) -> Counts:
    """Sum of counts of different lengths."""
    long, short = (left, right) if len(left) >= len(right) else (right, left)
    total = long.copy()
    total[: len(short)] += short
    return total


def quantile(counts: Counts, share: float) -> int:
    """The smallest value that at least this share of the counted is not above.

    Example: `quantile(array([0, 2, 1, 1]), 0.5) == 1`: of the values 1, 1, 2, 3 half are 1 or less.
    """
    return int(np.searchsorted(np.cumsum(counts), share * counts.sum()))


def mean(counts: Counts) -> float:
    """Mean of the counted values; 0 where nothing was counted."""
    return float((np.arange(len(counts)) * counts).sum() / max(1, counts.sum()))


def named(counts: Counts, names: tuple[str, ...]) -> Mapping[str, int]:
    """Counts by the names of their codes, those of 0 left out."""
    return {names[code] if code < len(names) else f"code {code}": int(counts[code]) for code in np.flatnonzero(counts)}
