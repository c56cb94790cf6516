"""Heads: losses on hidden states. Each has a file, selected by a key of `model.heads`."""

from clozeline.model.heads._head import (
    Head,
    Heads,
    LabelHead,
    RowHead,
    StoredColumns,
    VocabularyHead,
)

__all__ = ["Head", "Heads", "LabelHead", "RowHead", "StoredColumns", "VocabularyHead"]
