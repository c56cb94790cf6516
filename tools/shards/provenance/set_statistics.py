"""Count all rows of a set block by block.

The tables list lengths, coverage, labels, codes and shares.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.corrupt.preview.row_view import TokenRenderer
from clozeline.pipeline.kernels.ragged import flatten_positions
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import Manifest, ShardSet
from clozeline.pipeline.shards.block import holds_ids
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
    """Count all rows of a set."""
    sums = Tally()
    for block in range(len(shards.index)):
        _add(sums, shards.read_block(block), shards)
    return sums


def _add(sums: Tally, rows: RowBatch, shards: ShardSet) -> None:
    size = shards.manifest.tokenizer.vocab_size
    # rows by length, and by value of narrow columns
    for name, column in rows.columns.items():
        _grow(sums.lengths, name, np.bincount(column.lengths))
    for name in _single_number_columns(sums, shards):
        _grow(sums.numbers, name, np.bincount(rows.columns[name].values))
    # labels by how the input shows them, and occurrences of each id [vocabulary]
    sums.labels += _count_label_kinds(rows, shards.manifest)
    for name in (spec.name for spec in shards.columns if holds_ids(spec)):
        _grow(sums.ids, name, np.bincount(rows.columns[name].values, minlength=size))
    # rows by code
    for name in ("variant", "part", "copy", "language"):
        if name in rows.fixed:
            _grow(sums.codes, name, np.bincount(rows.fixed[name]))


def _single_number_columns(sums: Tally, shards: ShardSet) -> list[str]:
    """Return the small-number columns with at most one value in every row so far."""
    narrow = [
        spec for spec in shards.columns if spec.kind == "list" and spec.dtype in ("uint8", "uint16")
    ]
    names = [
        spec.name
        for spec in narrow
        if not holds_ids(spec) and len(sums.lengths.get(spec.name, ())) <= _COUNTS_OF_ZERO_AND_ONE
    ]
    sums.numbers = {name: counts for name, counts in sums.numbers.items() if name in names}
    return names


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
            masked = shown == mask
            same = shown == labels.values
            counts += [masked.sum(), (same & ~masked).sum(), (~same & ~masked).sum()]

    return counts


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


_QUANTILES: Final = (0.5, 0.9, 0.99)
_SHOWN_TOKENS: Final = 8
"""number of most frequent tokens that the table shows"""
_LABEL_COLUMNS: Final = ("label_ids", "target_ids")
_MAX_CLASSES: Final = 16
"""columns with more distinct values are not classes"""


def tables(shards: ShardSet, sums: Tally, pieces: TokenRenderer | None) -> list[Table]:
    """Return the tables that have rows for this set."""
    all_tables = [
        set_table(shards.manifest),
        _length_table(sums),
        *_label_tables(sums),
        _coverage_table(sums, pieces),
    ]
    all_tables += [*_class_tables(shards.manifest, sums), *_share_tables(shards.manifest, sums)]
    return [table for table in all_tables if table.rows]


def _length_table(sums: Tally) -> Table:
    rows: list[Sequence[Cell]] = []

    for name, counts in sums.lengths.items():
        smallest = int(np.flatnonzero(counts)[0])
        largest = len(counts) - 1
        middle = [quantile(counts, share) for share in _QUANTILES]
        rows.append(
            (
                name,
                smallest,
                mean(counts),
                *middle,
                largest,
                int((np.arange(len(counts)) * counts).sum()),
            )
        )

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
        if name in sums.ids and "input_ids" in sums.ids:
            labels = int(sums.ids[name].sum())
            inputs = int(sums.ids["input_ids"].sum())
            rows.append(
                (
                    name,
                    labels,
                    labels / max(1, sums.lengths[name].sum()),
                    100 * labels / max(1, inputs),
                )
            )

    yield Table("labels", ("column", "labels", "a row", "% of input_ids"), tuple(rows))
    counts = zip(LABEL_KINDS, sums.labels.tolist(), strict=True)
    total = max(1, int(sums.labels.sum()))
    kinds = tuple((name, count, 100 * count / total) for name, count in counts if count)
    yield Table("input at label positions", ("", "labels", "%"), kinds)


def _class_tables(manifest: Manifest, sums: Tally) -> Iterator[Table]:
    meaning = {column.name: column.description for column in manifest.columns}

    for name, counts in sums.numbers.items():
        values = np.flatnonzero(counts).tolist()
        if 1 < len(values) <= _MAX_CLASSES:
            total = int(counts.sum())
            shown = [
                manifest.languages[v] if manifest.roles[name].below == "languages" else str(v)
                for v in values
            ]
            rows = tuple(
                (text, int(counts[v]), 100 * counts[v] / total)
                for text, v in zip(shown, values, strict=True)
            )
            yield Table(f"rows by {name} ({meaning[name]})", (name, "rows", "%"), rows)


def _coverage_table(sums: Tally, pieces: TokenRenderer | None) -> Table:
    rows: list[Sequence[Cell]] = []

    for name, counts in sums.ids.items():
        used = int(np.count_nonzero(counts))
        ordered = np.sort(counts)[::-1]
        needed = [quantile(ordered, share) + 1 if used else 0 for share in _QUANTILES]
        frequent = [
            int(token)
            for token in np.argsort(-counts, kind="stable")[:_SHOWN_TOKENS]
            if counts[token]
        ]
        shown = [
            str(id_) if pieces is None else pieces.piece(id_).replace("\n", "").strip() or "␣"
            for id_ in frequent
        ]
        rows.append((name, used, 100 * used / len(counts), *needed, " ".join(shown)))

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


def _share_tables(manifest: Manifest, sums: Tally) -> Iterator[Table]:
    totals = manifest.totals
    for title, table in (
        ("language", totals.tokens_by_language),
        ("source", totals.tokens_by_source),
    ):
        total = max(1, sum(table.values()))
        rows = sorted(
            ((name, count, 100 * count / total) for name, count in table.items()),
            key=lambda row: -row[1],
        )
        yield Table(f"tokens by {title}", (title, "tokens", "%"), tuple(rows))

    for name in ("variant", "part", "copy"):
        if len(counts := sums.codes.get(name, np.zeros(0, np.int64))) > 1:
            shown = tuple((str(code), int(counts[code])) for code in np.flatnonzero(counts))
            yield Table(f"rows by {name}", (name, "rows"), shown)
