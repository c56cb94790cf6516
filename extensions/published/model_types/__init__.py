"""Types of published models: a file has those of one lineage."""

from clozeline.extensions.published.conversion.key_map import KeyMap

__all__ = ["KeyMap"]
