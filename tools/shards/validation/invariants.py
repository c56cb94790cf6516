"""Check what the roles of columns say about their values, whichever objective or grouping wrote them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from clozeline.arrays import Bool
from clozeline.pipeline.rows import Ragged, Role, Use
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.tasks.readers import facts_of
from clozeline.tools.shards.validation.column_rules import COLUMN_RULES
from clozeline.tools.shards.validation.ragged_checks import (
    LocatedRows,
    Problem,
    first_falling,
    first_not_ascending,
    first_of_values,
    first_outside,
    first_repeated,
    first_row,
    rows_with,
)
from clozeline.train.answers import answer_of

BASE_COLUMNS: Final = {"tokens": "token_ids", "samples": "ids", "examples": "input_ids"}
"""The column with the text of a row, in each type of set."""


def check_rows(block: LocatedRows, manifest: Manifest) -> None:
    """Raise IntegrityError for the first row of a block that contradicts a role, or a rule of its columns."""
    for check in (_codes, _roles, *COLUMN_RULES, _task):
        for row, message in check(block, manifest):
            raise block.error(row, message)


def _task(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require answers that the task allows."""
    facts = facts_of(manifest)
    if facts is not None:
        yield from answer_of(facts).problems(block.rows.columns)


def _codes(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require tokens, and codes of fixed columns below the size of what they index."""
    base = BASE_COLUMNS[manifest.kind]
    if manifest.kind != "tokens" and (row := first_row(block.rows.columns[base].lengths == 0)) is not None:
        yield row, f"{base} is empty"
    limits = {"variant": manifest.variants, "source_group": len(manifest.source_groups) or 1 << 16,
              "language": len(manifest.languages) or 1 << 8}  # fmt: skip
    for name, limit in limits.items():
        codes = block.rows.fixed.get(name, np.empty(0))
        if (row := first_row(codes >= limit)) is not None:
            yield row, f"{name}: expected a code below {limit}, got {int(codes[row])}"


def _roles(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    columns, facts = block.rows.columns, facts_of(manifest)
    limits = {"languages": len(manifest.languages), **({"classes": len(facts.labels)} if facts is not None else {})}
    for spec in manifest.columns:
        role = spec.role
        if role is None or role.use == "undo":
            continue
        column = columns[spec.name]
        limit = limits.get(role.below) if isinstance(role.below, str) else role.below
        if limit is not None and (row := first_of_values(column, column.values >= limit)) is not None:
            yield row, f"expected {spec.name} below {limit}, got {column[row].tolist()}"
        if role.use in _BY_USE:
            present = rows_with(column, block, manifest)
            yield from _BY_USE[role.use](spec.name, role, columns, present)


def _positions(name: str, role: Role, columns: Mapping[str, Ragged], present: Bool) -> Iterator[Problem]:
    places, of = columns[name], columns[role.of]
    if (row := first_outside(places, of.lengths)) is not None:
        yield row, f"expected {name} below the {of.lengths[row]} tokens of the row's {role.of}, got {places[row].max()}"
    if first_not_ascending(places) is not None and (row := first_repeated(places)) is not None:
        yield row, f"expected each position once in {name}, got {places[row].tolist()}"


def _starts(name: str, role: Role, columns: Mapping[str, Ragged], present: Bool) -> Iterator[Problem]:
    starts, lengths = columns[name], columns[role.of].lengths
    # a part without tokens, at the end too, starts where the next one does
    if (row := first_outside(starts, np.maximum(lengths, 1))) is not None:
        yield row, f"expected {name} below the row's {lengths[row]} tokens, got {starts[row].max()}"
    first = np.full(len(starts), -1)
    full = starts.lengths > 0
    first[full] = starts.values[starts.offsets[:-1][full]]
    if (row := first_row((first != 0) & (present & (lengths > 0) | full))) is not None:
        yield row, f"expected {name} to start with 0, got {starts[row][:3].tolist()}"
    if role.of != "target_ids" and (row := first_not_ascending(starts)) is not None:
        yield row, f"expected rising {name}, got {starts[row].tolist()}"
    if (row := first_falling(starts)) is not None:
        yield row, f"expected {name} that never fall, got {starts[row].tolist()}"


def _labels(name: str, role: Role, columns: Mapping[str, Ragged], present: Bool) -> Iterator[Problem]:
    if not role.of:
        return
    labels, of = columns[name], columns[role.of]
    if (row := first_row(labels.lengths != of.lengths)) is not None:
        yield row, f"expected as many {name} as {role.of}, got {labels.lengths[row]} and {of.lengths[row]}"
    if (row := first_not_ascending(of)) is not None:
        yield row, f"expected rising {role.of}, got {of[row].tolist()}"
    if not role.head and (row := first_row(present & (labels.lengths == 0))) is not None:
        yield row, f"expected {name}, at least one, got none"


def _one_value(name: str, role: Role, columns: Mapping[str, Ragged], present: Bool) -> Iterator[Problem]:
    column = columns[name]
    if (row := first_row((column.lengths != 1) & (present | (column.lengths > 0)))) is not None:
        yield row, f"expected one {name}, got {column[row].tolist()}"


def _weights(name: str, role: Role, columns: Mapping[str, Ragged], present: Bool) -> Iterator[Problem]:
    yield from _one_value(name, role, columns, present)
    weights = columns[name]
    if (row := first_of_values(weights, ~(np.isfinite(weights.values) & (weights.values > 0)))) is not None:
        yield row, f"expected a {name} above 0, got {weights[row].tolist()}"


_BY_USE: Final[Mapping[Use, Callable[[str, Role, Mapping[str, Ragged], Bool], Iterator[Problem]]]] = {
    "position": _positions, "start": _starts, "label": _labels, "row": _one_value, "weight": _weights,
}  # fmt: skip
