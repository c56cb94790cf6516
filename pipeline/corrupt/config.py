"""Options of `corrupt`: the list of objectives."""

from clozeline.pipeline.corrupt.entries import ObjectiveEntries

CorruptConfig = ObjectiveEntries
