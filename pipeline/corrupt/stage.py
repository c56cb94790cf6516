"""Corrupt: sample sets become example sets, one per objective; the offline form of what training does online."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pipeline.corrupt.counts import CorruptCounts, SetCounts
from pipeline.corrupt.entries import ObjectiveEntries, ObjectiveEntry
from pipeline.corrupt.passes import CorruptManifests, CorruptShards, example_units
from pipeline.execution.stage import Pass, Row, Stage, amount
from pipeline.execution.unit_record import require_equal
from pipeline.shards import Manifest
from pipeline.splits import Splits

__all__ = ["CorruptConfig", "CorruptStage"]

CorruptConfig = ObjectiveEntries


class CorruptStage(Stage[list[ObjectiveEntry], CorruptCounts]):
    """Sample shard k under variant v to example shard v * K + k, rows in the same order."""

    name: ClassVar[str] = "corrupt"
    place: ClassVar[int] = 80
    needs: ClassVar[tuple[str, ...]] = ("group",)
    shared: ClassVar[tuple[str, ...]] = ("seed", "heldout")

    def version(self) -> int:
        """Sum of the objectives' versions."""
        return sum(entry.objective.type.VERSION for entry in self.config)

    def passes(self) -> Sequence[Pass[CorruptCounts]]:
        """Return the passes: shards, then manifests."""
        tokens = self.recipe.folder("encode")
        splits = Splits(len(Manifest.load(tokens).shards), self.recipe.heldout.fraction)
        entries = tuple(self.config)
        units = example_units(entries, splits)
        work = CorruptShards(len(units), tokens, self.recipe.folder("group"), entries, units, self.recipe.seed)
        return [work, CorruptManifests(work)]

    def row(self, counts: CorruptCounts) -> Row:
        """Show samples and examples, over all objectives and variants."""
        out = f"{amount(counts['examples'], 'example')}\n{counts['tokens']:,} tokens"
        return Row(amount(counts["samples_in"], "sample"), out, (counts["skipped"],))

    def check(self, counts: CorruptCounts) -> None:
        """Check that each sample of each variant is an example or skipped for a reason."""
        for label, splits in counts.get("objectives", {}).items():
            for split, set_counts in splits.items():
                _check_set(f"corrupt {label}/{split}", set_counts)


def _check_set(where: str, set_counts: SetCounts) -> None:
    skipped = sum(set_counts["skipped"].values())
    require_equal(where, "samples_in", set_counts["samples_in"], "examples + skipped", set_counts["examples"] + skipped)
