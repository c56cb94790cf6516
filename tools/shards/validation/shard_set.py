"""Check a shard set in one pass.

Files against the manifest, blocks against the index, rows against their meaning.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clozeline.errors import IntegrityError
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.shards.block import holds_ids
from clozeline.seeding import mix
from clozeline.tools.shards.validation.located_rows import LocatedRows, read_rows

_BASE_COLUMNS: Final = {"tokens": "token_ids", "samples": "ids", "examples": "input_ids"}
"""The column with the text of a row, in each type of set."""
_TOTALS_BY_CODE_COLUMN: Final = {
    "language": ("tokens_by_language", "languages"),
    "source_group": ("tokens_by_source", "source_groups"),
}
"""Manifest fields for each column of codes: the totals by code, and the names of the codes."""


@dataclass(frozen=True)
class ComparedColumns:
    """Blocks of a column set that were compared with the rows."""

    blocks: int
    """blocks with as many values as the rows have labels"""
    computed_again: int | None = None
    """blocks whose values a model computed again; None: no model was given"""

    def describe(self) -> str:
        """Return it as half a sentence."""
        line = f"as many scores as labels in {self.blocks:,} blocks"
        return (
            line
            if self.computed_again is None
            else f"{line}, {self.computed_again} of them computed again"
        )


@dataclass
class Findings:
    """Sums over the blocks of a set."""

    rows: int = 0
    tokens: int = 0
    longest: int = 0
    blocks: int = 0
    by_code: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    """tokens by code, for each column of codes"""
    shard: int = -1
    last: np.uint64 = field(default_factory=lambda: np.uint64(0))


def check_shard_set(
    shards: ShardSet, also: Callable[[LocatedRows, int], None] | None = None
) -> Findings:
    """Check a set; `open_shards` has already compared manifest, index and file sizes.

    `also` is a further check, called with each block and its shard number.
    """
    # a column set has the ids of its rows in another set
    has_rows = shards.manifest.kind != "columns"
    base = _BASE_COLUMNS.get(shards.manifest.kind, "")
    if has_rows and base not in shards.manifest.roles:
        raise IntegrityError(
            f"{shards.path}: expected a list column {base} in a set of {shards.manifest.kind}"
        )

    findings = Findings()

    for block in range(len(shards.index)):
        located = read_rows(shards, block)
        rows = located.rows
        shard = int(shards.index.shard[block])
        _check_order(located, findings, shard)
        _check_variant(located, shards, shard)
        # sums over the set, which its totals must equal
        lengths = [rows.columns[spec.name].lengths for spec in shards.columns if holds_ids(spec)]
        findings.rows += len(rows)
        findings.blocks += 1

        if lengths:
            findings.tokens += int(lengths[0].sum())
            findings.longest = max([findings.longest, *(int(length.max()) for length in lengths)])
            for name in _TOTALS_BY_CODE_COLUMN.keys() & rows.fixed.keys():
                tokens = np.bincount(rows.fixed[name], lengths[0], 1 << 16).astype(np.int64)
                findings.by_code[name] = findings.by_code.get(name, np.int64(0)) + tokens

        if also is not None:
            also(located, shard)

    for shard in range(len(shards.manifest.shards)):
        shards.verify_shard(shard)  # after the blocks, so that a damaged block is named first
    _check_totals(shards, findings)
    return findings


def _check_order(block: LocatedRows, findings: Findings, shard: int) -> None:
    """Require that the rows of a shard are sorted by the hash of their uid, without duplicates."""
    if "uid" not in block.rows.fixed:
        return
    # the hash of each uid must not be below the previous one, also across blocks of a shard
    keys = mix(block.rows.fixed["uid"].astype(np.uint64))
    before = np.concatenate(
        ([findings.last if findings.shard == shard else np.uint64(0)], keys[:-1])
    )
    if (keys < before).any():
        raise block.error(
            int(np.argmax(keys < before)),
            "expected the rows of a shard in order of their uid's hash",
        )

    duplicates = np.flatnonzero(keys[1:] == keys[:-1])
    for row in duplicates.tolist():
        if all((column[row] == column[row + 1]).all() for column in block.rows.fixed.values()):
            raise block.error(row + 1, "the row before has the same sample and variant")

    findings.shard = shard
    findings.last = keys[-1]


def _check_variant(block: LocatedRows, shards: ShardSet, shard: int) -> None:
    """Require that example shard v * K + k holds variant v of sample shard k."""
    variants = shards.manifest.variants
    files = len(shards.manifest.shards)
    if shards.manifest.kind != "examples":
        return
    if files % variants:
        raise IntegrityError(
            f"{shards.path}: {files} shards cannot hold {variants} variants of each sample shard"
        )

    expected = shard // (files // variants)
    wrong = block.rows.fixed["variant"] != expected
    if wrong.any():
        raise block.error(int(np.argmax(wrong)), f"expected variant {expected} in this shard")


def _check_totals(shards: ShardSet, findings: Findings) -> None:
    manifest = shards.manifest
    totals = manifest.totals
    path = shards.path

    for name, recorded, counted in (
        ("totals.samples", totals.samples, findings.rows),
        ("totals.tokens", totals.tokens, findings.tokens),
        ("totals.blocks", totals.blocks, findings.blocks),
        ("max_length", manifest.max_length, findings.longest),
    ):
        if counted != recorded:
            raise IntegrityError(f"{path}: {name}: expected {recorded}, counted {counted}")

    for column, (key, table) in _TOTALS_BY_CODE_COLUMN.items():
        tokens_recorded = {name: count for name, count in getattr(totals, key).items() if count}
        counts = findings.by_code.get(column, np.zeros(0, np.int64))
        names = getattr(manifest, table)
        by_name = {
            names[code] if code < len(names) else f"code {code}": int(counts[code])
            for code in np.flatnonzero(counts)
        }
        if tokens_recorded and by_name != tokens_recorded:
            raise IntegrityError(
                f"{path}: totals.{key}: expected {tokens_recorded}, counted {by_name}"
            )
