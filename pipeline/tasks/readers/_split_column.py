"""The column of a table that says to which split a row belongs."""

from dataclasses import field
from typing import Annotated, Final

from pydantic import BeforeValidator

from clozeline.configuration.config import config_class
from clozeline.pipeline.tasks.readers._column_files import Row, value_at
from clozeline.pipeline.tasks.readers._label_cells import as_texts, cell_text

_SPLITS: Final = {"training": "train", "validation": "dev", "valid": "dev", "val": "dev", "development": "dev"}
"""Other names of splits."""


@config_class
class SplitColumn:
    """A column that says to which split a row belongs."""

    column: str
    """column of the split; values are train, dev and test, or training, validation, valid, val, development"""
    names: Annotated[dict[str, str], BeforeValidator(as_texts)] = field(default_factory=dict)
    """splits by further values of the column: {"0": train, "1": dev}"""

    def split_of(self, row: Row) -> str | None:
        """Return the split of a row; None for a value that names none."""
        value = cell_text(value_at(row, self.column)) or ""
        known = self.names.get(value) or _SPLITS.get(value.lower(), value.lower())
        return known if known in ("train", "dev", "test") or known in self.names.values() else None
