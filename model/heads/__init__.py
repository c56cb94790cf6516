"""Heads: what hidden states are asked for in training. One file each, chosen by the keys of `model.heads`."""

from clozeline.model.heads._head import Head

__all__ = ["Head"]
