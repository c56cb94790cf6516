"""Heads: losses on hidden states. One file each, chosen by the keys of `model.heads`."""

from clozeline.model.heads._head import Head, Heads, LabelHead, RowHead, VocabularyHead

__all__ = ["Head", "Heads", "LabelHead", "RowHead", "VocabularyHead"]
