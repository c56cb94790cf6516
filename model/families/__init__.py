"""Families: how stacks are put together. One file each, chosen by `model.family`."""

from clozeline.model.families._family import Family, View

__all__ = ["Family", "View"]
