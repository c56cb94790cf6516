"""Heads: losses on hidden states. One file each, chosen by the keys of `model.heads`."""

from clozeline.model.heads._head import Head

__all__ = ["Head"]
