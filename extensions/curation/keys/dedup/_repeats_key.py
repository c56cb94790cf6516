"""A key of `dedup` that removes repeated pieces of texts."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Literal, TypeAlias

from clozeline.configuration.config import config_class
from clozeline.pipeline.dedup.keys import DedupKey

if TYPE_CHECKING:  # help describes keys without their work, which imports numpy
    from clozeline.extensions.curation.repeats import TextPieces
    from clozeline.pipeline.dedup.parts import Parts
    from clozeline.pipeline.dedup.removal import EditPasses, RemovalTypes

Within: TypeAlias = Literal["all", "source"]
"""Documents among which pieces are counted: `all`, or those of the same `source` of the input."""


@config_class
class RepeatsKey(DedupKey):
    """A key with a type of pieces."""

    @abstractmethod
    def pieces(self) -> TextPieces:
        """Return the type of pieces with the options of the key."""

    def passes(self, parts: Parts, earlier: RemovalTypes) -> EditPasses:
        from clozeline.extensions.curation.repeats import find_repeats

        return find_repeats(self.pieces(), parts, earlier)
