"""Interface of kinds of column sets: what the columns of a set hold, from its manifest.

Extensions add them. The attribute `config_key` is the key of the manifest's `config` by which a set
of the kind is known.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from clozeline.pipeline.corrupt.preview.row_view import TokenRenderer
from clozeline.pipeline.rows import ShardRow
from clozeline.pipeline.shards import ShardSet
from clozeline.report.views import Table
from clozeline.tools.registries import COLUMN_KINDS
from clozeline.tools.shards.validation.shard_set import ComparedColumns


class ColumnKind(ABC):
    """What the columns of a set hold."""

    config_key: ClassVar[str]
    """key of the manifest's `config`"""

    @staticmethod
    @abstractmethod
    def compare(columns: ShardSet, against: ShardSet, model: Path | None) -> ComparedColumns:
        """Compare a column set with the set of its rows, and with the model that computed it.

        Raises:
            ConfigurationError: these are not its rows, or another model.
            IntegrityError: the columns do not belong to the rows, or the model computes others.
        """

    @staticmethod
    @abstractmethod
    def sheets(
        pieces: TokenRenderer, row: ShardRow, rows: ShardSet, columns: ShardSet
    ) -> Sequence[Table]:
        """Return what the columns say of a row."""


def kinds_of(sets: Iterable[ShardSet]) -> list[tuple[type[ColumnKind], ShardSet]]:
    """Return each column set whose kind an extension knows, after the kind."""
    kinds = COLUMN_KINDS.classes().items()
    return [(kind, each) for each in sets for name, kind in kinds if name in each.manifest.config]
