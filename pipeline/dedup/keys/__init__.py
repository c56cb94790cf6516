"""Interface of keys of `dedup` that extensions add, one per file: what to remove within texts.

`extensions/NAME/keys/dedup/lines.py` holds `LinesConfig`, the class of the key `lines`. Keys work
one after the other, in the order of their names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from clozeline.configuration.config import config_class

if TYPE_CHECKING:  # help describes keys without their work, which imports numpy
    from clozeline.pipeline.dedup.parts import Parts
    from clozeline.pipeline.dedup.removal import EditPasses, RemovalTypes


@config_class
class DedupKey(ABC):
    """A key that an extension adds to `dedup`."""

    @abstractmethod
    def passes(self, parts: Parts, earlier: RemovalTypes) -> EditPasses:
        """Yield the passes that read what earlier types leave; return what then edits texts."""
