"""Model families: how stacks are combined. Each has a file, selected by `model.family`."""

from clozeline.model.families._family import HeadInput, ModelFamily

__all__ = ["HeadInput", "ModelFamily"]
