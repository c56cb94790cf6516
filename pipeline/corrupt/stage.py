"""Corrupt: sample sets become example sets, one per objective; the offline form of what training does online."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pipeline.corrupt.entries import ObjectiveEntries, ObjectiveEntry
from pipeline.corrupt.passes import CorruptManifests, CorruptShards, places
from pipeline.errors import ConfigurationError
from pipeline.execution.stage import Pass, Stage
from pipeline.execution.unit_record import Counts, require_equal
from pipeline.group.passes import Splits
from pipeline.recipe import Recipe
from pipeline.shards import Manifest

__all__ = ["CorruptConfig", "CorruptStage"]

CorruptConfig = ObjectiveEntries


class CorruptStage(Stage):
    """Sample shard k under variant v to example shard v * K + k, rows in the same order."""

    name: ClassVar[str] = "corrupt"

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        if recipe.corrupt is None:
            raise ConfigurationError("the recipe has no key 'corrupt'")
        self.entries: tuple[ObjectiveEntry, ...] = tuple(recipe.corrupt)

    def version(self) -> int:
        """Sum of the objectives' versions."""
        return sum(entry.objective.type.VERSION for entry in self.entries)

    def passes(self) -> Sequence[Pass]:
        """Shards, then manifests."""
        tokens = self.recipe.folder("encode")
        splits = Splits(len(Manifest.load(tokens).shards), self.recipe.heldout.fraction)
        found = places(self.entries, splits)
        work = CorruptShards(len(found), tokens, self.recipe.folder("group"), self.entries, found, self.recipe.seed)
        return [work, CorruptManifests(work)]

    def check(self, counts: Counts) -> None:
        """Each sample is an example or skipped for a reason; per unit, this is per variant."""
        for label, splits in counts.get("objectives", {}).items():
            for split, found in splits.items():
                _check_set(f"corrupt {label}/{split}", found)


def _check_set(where: str, found: Mapping[str, Any]) -> None:
    skipped = sum(found["skipped"].values())
    require_equal(where, "samples_in", found["samples_in"], "examples + skipped", found["examples"] + skipped)
