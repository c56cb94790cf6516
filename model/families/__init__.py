"""Model families: how stacks are combined. Each has a file, selected by `model.family`."""

from clozeline.model.families._family import Family, View

__all__ = ["Family", "View"]
