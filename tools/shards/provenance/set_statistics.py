"""Count all rows of a set block by block.

The tables list lengths, coverage, labels, codes and shares.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.corrupt.preview.row_view import TokenRenderer
from clozeline.pipeline.kernels.ragged import flatten_positions
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import Manifest, ShardSet
from clozeline.pipeline.shards.block import ColumnSpec, holds_ids
from clozeline.pipeline.shards.set_table import set_table
from clozeline.report.views import Cell, Table

Counts = NDArray[np.int64]
LABEL_KINDS: Final = ("the mask", "the label itself", "another token")
"""in the order of `Tally.labels`: the input token at the position of a label"""

_COUNTS_OF_ZERO_AND_ONE: Final = 2
"""number of counts of a column whose lists have only the lengths 0 and 1"""


@dataclass
class Tally:
    """Sums over the rows of a set.

    Args:
        lengths: per list column, rows with 0, 1, 2, ... values.
        values: per column of token ids or small numbers, how often 0, 1, 2, ... occurs.
        labels: labels by the `input_ids` token at their position, in the order of `LABEL_KINDS`.
    """

    lengths: dict[str, Counts]
    values: dict[str, Counts]
    labels: Counts


def tally(shards: ShardSet) -> Tally:
    """Count all rows of a set."""
    sums = Tally({}, {}, np.zeros(3, np.int64))
    counted = [spec.name for spec in shards.columns if holds_ids(spec) or _holds_numbers(spec)]
    for block in range(len(shards.index)):
        rows = shards.read_block(block)
        sums.labels += _count_label_kinds(rows, shards.manifest)
        for name, column in rows.columns.items():
            _add(sums.lengths, name, column.lengths)
        for name in counted:
            _add(sums.values, name, rows.columns[name].values)
    return sums


def _holds_numbers(spec: ColumnSpec) -> bool:
    """Return whether a column lists small numbers that are no token ids."""
    return spec.kind == "list" and spec.dtype in ("uint8", "uint16") and not holds_ids(spec)


def _add(table: dict[str, Counts], name: str, values: NDArray[Any]) -> None:
    before = table.get(name, np.zeros(0, np.int64))
    table[name] = np.bincount(values, minlength=len(before))
    table[name][: len(before)] += before


def _count_label_kinds(rows: RowBatch, manifest: Manifest) -> Counts:
    counts = np.zeros(3, np.int64)
    mask = manifest.tokenizer.special_ids.get("mask", -1)

    for name, role in manifest.roles.items():
        if role.use == "label" and role.below == "vocabulary" and role.of:
            labels = rows.columns[name]
            positions = rows.columns[role.of]
            inputs = rows.columns[manifest.roles[role.of].of]
            # input token at each label position, over all rows of the block: [labels]
            shown = inputs.values[flatten_positions(positions, inputs.offsets)]
            kinds = np.select([shown == mask, shown == labels.values], [0, 1], 2)
            counts += np.bincount(kinds, minlength=3)

    return counts


def quantile(counts: Counts, share: float) -> int:
    """Return the smallest value that at least this share of the counted values does not exceed.

    Example: `quantile(array([0, 2, 1, 1]), 0.5) == 1`: of the values 1, 1, 2, 3 half are 1 or less.
    """
    return int(np.searchsorted(np.cumsum(counts), share * counts.sum()))


_QUANTILES: Final = (0.5, 0.9, 0.99)
_SHOWN_TOKENS: Final = 8
"""number of most frequent tokens that the table shows"""
_LABEL_COLUMNS: Final = ("label_ids", "target_ids")
_MAX_CLASSES: Final = 16
"""columns with more distinct values are not classes"""


def tables(shards: ShardSet, sums: Tally, pieces: TokenRenderer) -> list[Table]:
    """Return the tables that have rows for this set."""
    all_tables = [
        set_table(shards.manifest),
        _length_table(sums),
        *_label_tables(sums),
        _coverage_table(shards, sums, pieces),
        *_class_tables(shards, sums),
        _source_table(shards.manifest),
    ]
    return [table for table in all_tables if table.rows]


def _length_table(sums: Tally) -> Table:
    rows: list[Sequence[Cell]] = []

    for name, counts in sums.lengths.items():
        smallest = int(np.flatnonzero(counts)[0])
        total = int(np.arange(len(counts)) @ counts)
        middle = [quantile(counts, share) for share in _QUANTILES]
        mean = total / int(counts.sum())
        rows.append((name, smallest, mean, *middle, len(counts) - 1, total))

    return Table(
        "lengths",
        ("column", "smallest", "mean", "median", "90 %", "99 %", "largest", "sum"),
        tuple(rows),
    )


def _label_tables(sums: Tally) -> Iterator[Table]:
    """Yield the label counts, and the tokens at labeled positions.

    Counts are also given as a share of the tokens that the model reads.
    """
    rows: list[Sequence[Cell]] = []

    for name in _LABEL_COLUMNS:
        if name in sums.values and "input_ids" in sums.values:
            labels = int(sums.values[name].sum())
            share = 100 * labels / max(1, int(sums.values["input_ids"].sum()))
            rows.append((name, labels, labels / int(sums.lengths[name].sum()), share))

    yield Table("labels", ("column", "labels", "a row", "% of input_ids"), tuple(rows))
    yield Table("input at label positions", ("", "labels", "%"), _shares(LABEL_KINDS, sums.labels))


def _shares(names: Sequence[str], counts: Counts) -> tuple[Sequence[Cell], ...]:
    """Return name, count and percentage of what occurs."""
    total = int(counts.sum())
    return tuple(
        (name, count, 100 * count / total)
        for name, count in zip(names, counts.tolist(), strict=True)
        if count
    )


def _class_tables(shards: ShardSet, sums: Tally) -> Iterator[Table]:
    """Yield the counts of columns with at most one number in a row, and few distinct ones."""
    languages = shards.manifest.languages

    for spec in filter(_holds_numbers, shards.columns):
        name = spec.name
        if len(sums.lengths.get(name, ())) == _COUNTS_OF_ZERO_AND_ONE:
            values = np.flatnonzero(sums.values[name])
            if 1 < len(values) <= _MAX_CLASSES:
                below = shards.manifest.roles[name].below
                shown = [languages[v] if below == "languages" else str(v) for v in values]
                rows = _shares(shown, sums.values[name][values])
                yield Table(f"rows by {name} ({spec.description})", (name, "rows", "%"), rows)


def _coverage_table(shards: ShardSet, sums: Tally, pieces: TokenRenderer) -> Table:
    rows: list[Sequence[Cell]] = []

    for name in (spec.name for spec in shards.columns if holds_ids(spec)):
        if name not in sums.values:
            continue
        counts = sums.values[name]
        used = int(np.count_nonzero(counts))
        ordered = np.argsort(-counts, kind="stable")[:used]
        needed = [quantile(counts[ordered], share) + bool(used) for share in _QUANTILES]
        shown = [
            pieces.piece(id_).replace("\n", "").strip() or "␣"
            for id_ in ordered[:_SHOWN_TOKENS].tolist()
        ]
        share = 100 * used / shards.manifest.tokenizer.vocab_size
        rows.append((name, used, share, *needed, " ".join(shown)))

    header = (
        "column",
        "ids used",
        "% of all",
        "ids for 50 %",
        "for 90 %",
        "for 99 %",
        "most frequent",
    )

    return Table("vocabulary coverage", header, tuple(rows))


def _source_table(manifest: Manifest) -> Table:
    tokens = manifest.totals.tokens_by_source
    total = max(1, sum(tokens.values()))
    rows = [(name, count, 100 * count / total) for name, count in tokens.items()]
    rows.sort(key=lambda row: -row[1])
    return Table("tokens by source", ("source", "tokens", "%"), rows)
