"""Check the rows of a block by the roles of their columns.

A program that knows the format but not these rules writes right hashes over wrong rows. A rule
costs a few passes over its column, so that the reader checks every block.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Bool
from clozeline.columns import Role
from clozeline.pipeline.registries import OBJECTIVES, SET_KINDS
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards.block import BlockError
from clozeline.pipeline.shards.manifest import Manifest

_Check: TypeAlias = tuple[Bool, str, NDArray[Any] | Ragged]
"""Which rows, or values of a list column, break a rule; what it expects; the rows or values."""


def find_bounds(manifest: Manifest) -> dict[int | str, int]:
    """Return the size of each list that a role may name in `below`."""
    bounds: dict[int | str, int] = {
        "vocabulary": manifest.tokenizer.vocab_size,
        "languages": len(manifest.languages),
    }
    record = manifest.objective
    if record and not OBJECTIVES.is_known(record.name) and SET_KINDS.is_known(record.name):
        bounds["classes"] = len(SET_KINDS.create(record.name, record).labels)
    return bounds


def check_rows(
    rows: RowBatch,
    manifest: Manifest,
    bounds: Mapping[int | str, int],
    everywhere: bool | None = None,
) -> None:
    """Raise BlockError for the first row that breaks a rule of the columns that were read.

    A column that one row of a part has is required in all rows of this part, or with `everywhere`
    in all rows. Without a value of `everywhere`, a row may lack what a head alone learns from, and
    positions in any order are not compared with one another, which takes as long as to read them.
    """
    for wrong, expected, found in _check(rows, manifest, bounds, everywhere):
        if wrong.any():
            index = int(np.argmax(wrong))
            row, values = index, found
            if isinstance(found, Ragged):
                row = int(np.searchsorted(found.offsets, index, side="right")) - 1
                values = found.values
            raise BlockError(expected, f"{values[index]} in {describe_row(rows, row)}")


def describe_row(rows: RowBatch, row: int) -> str:
    """Return the index of a row in its block, and what identifies it, if that was read."""
    fixed = rows.fixed
    names = [f"sample {int(fixed['uid'][row]):016x}"] if "uid" in fixed else []
    if "variant" in fixed:
        names.append(f"variant {int(fixed['variant'][row])}")
    if "document_uid" in fixed:
        names.append(f"document {fixed['document_uid'][row].tobytes().hex()}")
    return f"row {row} ({', '.join(names)})" if names else f"row {row}"


def _falls(ragged: Ragged, *, strict: bool = True) -> Bool:
    """Return which values are below their predecessor in the row, or equal to it if `strict`."""
    compare = np.less_equal if strict else np.less
    falls = np.zeros(len(ragged.values) + 1, np.bool_)
    compare(ragged.values[1:], ragged.values[:-1], out=falls[1:-1])
    falls[ragged.offsets] = False
    return falls[:-1]


def _check(
    rows: RowBatch, manifest: Manifest, bounds: Mapping[int | str, int], everywhere: bool | None
) -> Iterator[_Check]:
    for name, limit in (
        ("variant", manifest.variants),
        ("source_group", len(manifest.source_groups) or 1 << 16),
        ("language", len(manifest.languages) or 1 << 8),
    ):
        if (codes := rows.fixed.get(name)) is not None:
            yield codes >= limit, f"{name} below {limit}", codes

    part = rows.fixed.get("part")
    for name, role in manifest.roles.items():
        column = rows.columns.get(name)
        if column is None:
            continue
        lengths = column.lengths
        if role.below == "vocabulary":
            least = int(name in ("ids", "input_ids"))
            most = manifest.max_length
            wrong = (lengths < least) | (lengths > most)
            yield wrong, f"{least} to {most} {name}", lengths
        bound = bounds.get(role.below, role.below)
        if isinstance(bound, int) and column.values.max(initial=0) >= bound:
            yield column.values >= bound, f"{name} below {bound}", column

        # rows that must have the column: of a mixture, only some parts may
        present = lengths > 0
        if part is not None and not present.all():
            present = np.isin(part, part[present]) | bool(everywhere)
        if role.use in ("row", "weight"):
            # a head learns nothing from a row without a value
            missing = present & (not role.head or everywhere is not None)
            yield (lengths > 1) | missing & (lengths == 0), f"one {name}", lengths
        if role.use == "weight":
            right = (column.values > 0) & (column.values < np.inf)
            yield ~right, f"a {name} above 0", column
        if (of := rows.columns.get(role.of)) is not None:
            yield from _check_parts(name, role, column, of, present, everywhere)


def _check_parts(
    name: str, role: Role, column: Ragged, of: Ragged, present: Bool, everywhere: bool | None
) -> Iterator[_Check]:
    """Check a column whose values belong to those of the column `of`."""
    lengths = column.lengths
    if role.use == "label":
        yield lengths != of.lengths, f"as many {name} as {role.of}", lengths
        yield _falls(of), f"rising {role.of}", of
        if not role.head:
            yield present & (lengths == 0), f"one or more {name}", lengths
    if role.use not in ("position", "start"):
        return

    has_values = lengths > 0
    firsts = column.offsets[:-1][has_values]
    falls = _falls(column, strict=role.of != "target_ids")
    if role.use == "start":
        late = np.zeros(len(column.values), np.bool_)
        late[firsts] = column.values[firsts] > 0
        yield late, f"{name} that start with 0", column
        yield present & (lengths == 0) & (of.lengths > 0), f"one or more {name}", lengths
        yield falls, f"rising {name}", column

    highest = np.zeros(len(column), column.values.dtype)
    if falls.any():
        highest[has_values] = np.maximum.reduceat(column.values, firsts)
    else:
        highest[has_values] = column.values[column.offsets[1:][has_values] - 1]
    # a part without tokens, at the end too, starts where the next one does
    outside = highest >= np.maximum(of.lengths, role.use == "start")
    yield has_values & outside, f"{name} below the tokens of {role.of}", highest

    if everywhere is not None and falls.any():
        flat = column.values + np.repeat(of.offsets[:-1], lengths)
        yield np.bincount(flat)[flat] > 1, f"each of {name} once", column
