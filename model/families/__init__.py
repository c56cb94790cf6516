"""Model families: how stacks are combined. One file each, chosen by `model.family`."""

from clozeline.model.families._family import Family, View

__all__ = ["Family", "View"]
