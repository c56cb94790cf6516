"""Rows of one block with what an error message names: file, block, row and sample."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards import Manifest


@dataclass(frozen=True, slots=True)
class LocatedRows:
    """The rows of one block of a shard, with all columns."""

    path: Path
    block: int
    rows: Rows

    def error(self, row: int, message: str) -> IntegrityError:
        """Return an error that names the row."""
        fixed = self.rows.fixed
        sample = f"sample {int(fixed['uid'][row]):016x}" if "uid" in fixed else "document"
        variant = f", variant {int(fixed['variant'][row])}" if "variant" in fixed else ""
        document = f" of document {fixed['document_uid'][row].tobytes().hex()}" if "document_uid" in fixed else ""
        return IntegrityError(f"{self.path}: block {self.block}: row {row} ({sample}{variant}{document}): {message}")


Problem: TypeAlias = tuple[int, str]
"""A row, and what is wrong in it."""
Check: TypeAlias = Callable[[LocatedRows, Manifest], Iterator[Problem]]
