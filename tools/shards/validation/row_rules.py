"""Check each column by its role."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Bool
from clozeline.columns import Role, Use
from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.set_kinds import Problem, kind_of
from clozeline.pipeline.shards import Manifest
from clozeline.tools.shards.provenance.document_table import grouping_of


def row_of_values(ragged: Ragged) -> NDArray[np.int64]:
    """Return the row of each value, shape [values]."""
    return np.repeat(np.arange(len(ragged), dtype=np.int64), ragged.lengths)


def rank_in_row(ragged: Ragged) -> NDArray[np.int64]:
    """Return the index of each value in its row, shape [values]."""
    lengths = ragged.lengths
    ranks: NDArray[np.int64] = np.arange(len(ragged.values), dtype=np.int64)
    return ranks - np.repeat(np.cumsum(lengths) - lengths, lengths)


def first_row(wrong: Bool) -> int | None:
    """Return the first row marked as wrong, None if no row is."""
    return int(np.argmax(wrong)) if wrong.any() else None


def first_of_values(ragged: Ragged, wrong: Bool) -> int | None:
    """Return the row of the first value marked as wrong, None if no value is."""
    return int(row_of_values(ragged)[np.argmax(wrong)]) if wrong.any() else None


def first_not_ascending(ragged: Ragged, least: int = 1) -> int | None:
    """Return the first row with a value that exceeds its predecessor by less than `least`."""
    falls = np.diff(ragged.values.astype(np.int64), prepend=0) < least
    return first_of_values(ragged, falls & (rank_in_row(ragged) > 0))


def first_outside(ragged: Ragged, bounds: NDArray[np.int64]) -> int | None:
    """Return the first row with a value that is not below the row's bound [rows]."""
    return first_of_values(ragged, ragged.values.astype(np.int64) >= bounds[row_of_values(ragged)])


def first_repeated(ragged: Ragged) -> int | None:
    """Return the first row that has a value twice."""
    order = np.lexsort((ragged.values, row_of_values(ragged)))
    return first_not_ascending(Ragged(ragged.values[order], ragged.offsets))


@dataclass(frozen=True, slots=True)
class LocatedRows:
    """The rows of one block of a shard, with all columns."""

    path: Path
    block: int
    rows: RowBatch

    def error(self, row: int, message: str) -> IntegrityError:
        """Return an error that names the row."""
        fixed = self.rows.fixed
        sample = f"sample {int(fixed['uid'][row]):016x}" if "uid" in fixed else "document"
        variant = f", variant {int(fixed['variant'][row])}" if "variant" in fixed else ""
        document = (
            f" of document {fixed['document_uid'][row].tobytes().hex()}"
            if "document_uid" in fixed
            else ""
        )
        return IntegrityError(
            f"{self.path}: block {self.block}: row {row} ({sample}{variant}{document}): {message}"
        )


def rows_with(column: Ragged, block: LocatedRows, manifest: Manifest) -> Bool:
    """Return which rows must have a column; in a mixture, only some objectives may have it.

    In a token set, a document may lack the column of its second text.
    """
    if manifest.kind == "tokens":
        return column.lengths > 0
    grouping = grouping_of(manifest)
    if manifest.objective is None or grouping is None or len(grouping.lengths) == 1:
        return np.ones(len(column), np.bool_)
    part = block.rows.fixed["part"]
    return np.isin(part, part[column.lengths > 0])


BASE_COLUMNS: Final = {"tokens": "token_ids", "samples": "ids", "examples": "input_ids"}
"""The column with the text of a row, in each type of set."""


def check_rows(block: LocatedRows, manifest: Manifest) -> None:
    """Raise IntegrityError for the first row of a block that breaks a rule."""
    for check in (_codes, _roles, _answers):
        for row, message in check(block, manifest):
            raise block.error(row, message)


def _answers(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require answers that the kind of set allows."""
    if (kind := kind_of(manifest.objective)) is not None:
        yield from kind.problems(block.rows.columns)


def _codes(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require tokens, and codes of fixed columns, below the size of the list they index."""
    base = BASE_COLUMNS[manifest.kind]
    if (
        manifest.kind != "tokens"
        and (row := first_row(block.rows.columns[base].lengths == 0)) is not None
    ):
        yield row, f"{base} is empty"

    limits = {
        "variant": manifest.variants,
        "source_group": len(manifest.source_groups) or 1 << 16,
        "language": len(manifest.languages) or 1 << 8,
    }
    for name, limit in limits.items():
        codes = block.rows.fixed.get(name, np.empty(0))
        if (row := first_row(codes >= limit)) is not None:
            yield row, f"{name}: expected a code below {limit}, got {int(codes[row])}"


def _roles(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    columns = block.rows.columns
    kind = kind_of(manifest.objective)
    limits = {
        "languages": len(manifest.languages),
        **({"classes": kind.classes} if kind is not None else {}),
    }

    for spec in manifest.columns:
        role = spec.role
        if role is None or role.use == "undo":
            continue
        column = columns[spec.name]
        limit = limits.get(role.below) if isinstance(role.below, str) else role.below
        if (
            limit is not None
            and (row := first_of_values(column, column.values >= limit)) is not None
        ):
            yield row, f"expected {spec.name} below {limit}, got {column[row].tolist()}"

        if role.use in _BY_USE:
            present = rows_with(column, block, manifest)
            yield from _BY_USE[role.use](spec.name, role, columns, present)


def _positions(
    name: str, role: Role, columns: Mapping[str, Ragged], present: Bool
) -> Iterator[Problem]:
    positions = columns[name]
    indexed = columns[role.of]
    if (row := first_outside(positions, indexed.lengths)) is not None:
        yield (
            row,
            f"expected {name} below the {indexed.lengths[row]} tokens of the row's {role.of}, got "
            f"{positions[row].max()}",
        )

    if (
        first_not_ascending(positions) is not None
        and (row := first_repeated(positions)) is not None
    ):
        yield row, f"expected each position once in {name}, got {positions[row].tolist()}"


def _starts(
    name: str, role: Role, columns: Mapping[str, Ragged], present: Bool
) -> Iterator[Problem]:
    starts = columns[name]
    lengths = columns[role.of].lengths
    # a part without tokens, at the end too, starts where the next one does
    if (row := first_outside(starts, np.maximum(lengths, 1))) is not None:
        yield row, f"expected {name} below the row's {lengths[row]} tokens, got {starts[row].max()}"
    first_starts = np.full(len(starts), -1)
    has_starts = starts.lengths > 0
    first_starts[has_starts] = starts.values[starts.offsets[:-1][has_starts]]
    if (row := first_row((first_starts != 0) & (present & (lengths > 0) | has_starts))) is not None:
        yield row, f"expected {name} to start with 0, got {starts[row][:3].tolist()}"
    if role.of != "target_ids" and (row := first_not_ascending(starts)) is not None:
        yield row, f"expected rising {name}, got {starts[row].tolist()}"
    if (row := first_not_ascending(starts, 0)) is not None:
        yield row, f"expected {name} that never fall, got {starts[row].tolist()}"


def _labels(
    name: str, role: Role, columns: Mapping[str, Ragged], present: Bool
) -> Iterator[Problem]:
    if not role.of:
        return
    labels = columns[name]
    label_positions = columns[role.of]
    if (row := first_row(labels.lengths != label_positions.lengths)) is not None:
        yield (
            row,
            f"expected as many {name} as {role.of}, got {labels.lengths[row]} and "
            f"{label_positions.lengths[row]}",
        )

    if (row := first_not_ascending(label_positions)) is not None:
        yield row, f"expected rising {role.of}, got {label_positions[row].tolist()}"
    if not role.head and (row := first_row(present & (labels.lengths == 0))) is not None:
        yield row, f"expected {name}, at least one, got none"


def _one_value(
    name: str, role: Role, columns: Mapping[str, Ragged], present: Bool
) -> Iterator[Problem]:
    column = columns[name]
    if (row := first_row((column.lengths != 1) & (present | (column.lengths > 0)))) is not None:
        yield row, f"expected one {name}, got {column[row].tolist()}"


def _weights(
    name: str, role: Role, columns: Mapping[str, Ragged], present: Bool
) -> Iterator[Problem]:
    yield from _one_value(name, role, columns, present)
    weights = columns[name]
    if (
        row := first_of_values(weights, ~(np.isfinite(weights.values) & (weights.values > 0)))
    ) is not None:
        yield row, f"expected a {name} above 0, got {weights[row].tolist()}"


_BY_USE: Final[
    Mapping[Use, Callable[[str, Role, Mapping[str, Ragged], Bool], Iterator[Problem]]]
] = {
    "position": _positions,
    "start": _starts,
    "label": _labels,
    "row": _one_value,
    "weight": _weights,
}
