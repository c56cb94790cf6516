"""Count all rows of a set block by block."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.shards.columns import holds_ids
from clozeline.tools.shards.provenance.row_search import readable_blocks

Counts = NDArray[np.int64]
LABEL_KINDS: Final = ("the mask", "the label itself", "another token")
"""in the order of `Tally.labels`: the input token at the position of a label"""

_ONE: Final = 2
"""length of the counts of the lengths 0 and 1"""


@dataclass
class Tally:
    """Sums over the rows of a set.

    Args:
        lengths: per list column, rows with 0, 1, 2, ... values.
        ids: per column of token ids, occurrences of each id, shape [vocabulary].
        codes: per fixed column of codes (variant, language, ...), rows with code 0, 1, 2, ...
        numbers: per column with at most one small number in a row, rows with 0, 1, 2, ...
        labels: labels by the `input_ids` token at their position, in the order of `LABEL_KINDS`.
    """

    lengths: dict[str, Counts] = field(default_factory=dict)
    ids: dict[str, Counts] = field(default_factory=dict)
    codes: dict[str, Counts] = field(default_factory=dict)
    numbers: dict[str, Counts] = field(default_factory=dict)
    labels: Counts = field(default_factory=lambda: np.zeros(3, np.int64))


def tally(shards: ShardSet) -> Tally:
    """Count all rows of a set outside the quarantine."""
    sums = Tally()
    for block in readable_blocks(shards):
        _add(sums, shards.read_block(block), shards)
    return sums


def _add(sums: Tally, rows: Rows, shards: ShardSet) -> None:
    size = shards.manifest.tokenizer.vocab_size
    # rows by length, and by value of narrow columns
    for name, column in rows.columns.items():
        _grow(sums.lengths, name, np.bincount(column.lengths))
    for name in _single_number_columns(sums, shards):
        _grow(sums.numbers, name, np.bincount(rows.columns[name].values))
    # labels by how the input shows them, and occurrences of each id [vocabulary]
    sums.labels += _count_label_kinds(rows, shards.manifest.tokenizer.special_ids.get("mask", -1))
    for name in (spec.name for spec in shards.columns if holds_ids(spec)):
        _grow(sums.ids, name, np.bincount(rows.columns[name].values, minlength=size))
    # rows by code
    for name in ("variant", "part", "copy", "language"):
        if name in rows.fixed:
            _grow(sums.codes, name, np.bincount(rows.fixed[name]))


def _single_number_columns(sums: Tally, shards: ShardSet) -> list[str]:
    """Return the small-number columns with at most one value in every row so far."""
    narrow = [spec for spec in shards.columns if spec.kind == "list" and spec.dtype in ("uint8", "uint16")]
    names = [spec.name for spec in narrow if not holds_ids(spec) and len(sums.lengths.get(spec.name, ())) <= _ONE]
    sums.numbers = {name: counts for name, counts in sums.numbers.items() if name in names}
    return names


def _count_label_kinds(rows: Rows, mask: int) -> Counts:
    columns = rows.columns
    if not {"input_ids", "label_positions", "label_ids"} <= columns.keys():
        return np.zeros(3, np.int64)
    inputs, positions, labels = (columns[name] for name in ("input_ids", "label_positions", "label_ids"))
    # input token at each label position, over all rows of the block: [labels]
    flat = np.repeat(inputs.offsets[:-1], positions.lengths) + positions.values
    input_ids = inputs.values[flat]
    masked, same = input_ids == mask, input_ids == labels.values
    return np.array([masked.sum(), (same & ~masked).sum(), (~same & ~masked).sum()])


def _grow(table: dict[str, Counts], name: str, counts: NDArray[Any]) -> None:
    before = table.get(name, np.zeros(0, np.int64))
    table[name] = np.zeros(max(len(before), len(counts)), np.int64)
    for part in (before, counts):
        table[name][: len(part)] += part


def quantile(counts: Counts, share: float) -> int:
    """Return the smallest value that at least this share of the counted values does not exceed.

    Example: `quantile(array([0, 2, 1, 1]), 0.5) == 1`: of the values 1, 1, 2, 3 half are 1 or less.
    """
    return int(np.searchsorted(np.cumsum(counts), share * counts.sum()))


def mean(counts: Counts) -> float:
    """Return the mean of the counted values, 0 if none were counted."""
    return float((np.arange(len(counts)) * counts).sum() / max(1, counts.sum()))
