"""Turn samples into examples, one set per objective; `data.corrupt` does the same while training."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final, cast

from clozeline.pipeline.corrupt.config import ObjectiveEntry
from clozeline.pipeline.corrupt.passes import CorruptCounts, CorruptManifests, CorruptShards, SetCounts, example_units
from clozeline.pipeline.corrupt.preview.set_examples import example_views
from clozeline.pipeline.corrupt.preview.view import view_html
from clozeline.pipeline.execution.equations import EACH, Equation, Row
from clozeline.pipeline.execution.stages import Consumed, Pass, Stage, amount
from clozeline.pipeline.execution.unit_record import add_counts, require_equal
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.shards.layout import Splits
from clozeline.report.html_page import escape

_VERSION: Final = 1
"""raised when the same samples and options give other examples of several objectives"""

_SETS: Final = ("objectives", EACH, EACH)
"""Names above the counts of a set: its label and split."""
_SAMPLES: Final = Equation(["samples_in"], ["examples", "skipped"], unit="sample", within=_SETS)
"""Each sample of each variant is an example, or skipped for a reason."""


class CorruptStage(Stage[list[ObjectiveEntry], CorruptCounts]):
    """Sample shard k under variant v to example shard v * K + k, rows in the same order."""

    name: ClassVar[str] = "corrupt"
    equations: ClassVar[tuple[Equation, ...]] = (_SAMPLES,)
    needs: ClassVar[tuple[str, ...]] = ("group",)
    shared: ClassVar[tuple[str, ...]] = ("seed", "heldout")

    def version(self) -> int:
        return _VERSION + sum(int(entry.objective.type.version_with(entry.objective.options)) for entry in self.config)

    def passes(self) -> Sequence[Pass[CorruptCounts]]:
        tokens = self.recipe.folder("encode")
        splits = Splits(len(Manifest.load(tokens).shards), self.recipe.heldout.fraction)
        entries = tuple(self.config)
        units = example_units(entries, splits)
        work = CorruptShards(len(units), tokens, self.recipe.folder("group"), entries, units, self.recipe.seed)
        return [work, CorruptManifests(work)]

    def row(self, counts: CorruptCounts) -> Row:
        """Show examples of all objectives, and of each one the samples, as often as it has variants, and examples."""
        variants = {entry.set_label: entry.variants for entry in self.config}
        sets = tuple((label, _set_row(splits, variants[label])) for label, splits in counts["objectives"].items())
        return Row(amount(len(sets), "objective"), amount(counts["examples"], "example"), (), sets)

    def page_sections(self) -> Iterator[tuple[str, str]]:
        """Yield some examples of each objective, as `inspect-shard` shows them."""
        shown = []
        for entry in self.config:
            shown.append(f"<h3>{escape(entry.set_label)}</h3>")
            shown += map(view_html, example_views(self.folder / entry.set_label / "train" / "manifest.json"))
        yield "Some examples of each objective", "".join(shown)

    def consumes(self, counts: CorruptCounts) -> Sequence[Consumed]:
        """Return the samples of each set and their tokens, which each variant of an objective takes all."""
        variants = {entry.set_label: entry.variants for entry in self.config}
        return [
            Consumed(f"{what} of {source}/{split}", amount, variants[label] if split == "train" else 1)
            for label, splits in counts.get("objectives", {}).items()
            for split, set_counts in splits.items()
            for source, read in set_counts.get("read", {}).items()
            for what, amount in cast(Mapping[str, int], read).items()
        ]

    def check(self, counts: CorruptCounts, *, complete: bool = True) -> None:
        """Check also that each set read is that of all samples."""
        super().check(counts, complete=complete)
        for label, splits in counts.get("objectives", {}).items():
            for split, part in splits.items():
                for read in part.get("read", {}).values():
                    where = f"corrupt {label}/{split}"
                    require_equal(where, "samples read", read["samples"], "samples_in", part["samples_in"])


def _set_row(splits: Mapping[str, SetCounts], variants: int) -> Row:
    total: SetCounts = {}
    for set_counts in splits.values():
        add_counts(total, set_counts)
    samples = amount(total["samples_in"], "sample")
    if variants > 1:
        train, heldout = (splits[split]["samples_in"] if split in splits else 0 for split in ("train", "heldout"))
        samples += f"\n= {train // variants:,} x {variants} variants" + (f"\n+ {heldout:,} held out" if heldout else "")
    out = f"{amount(total['examples'], 'example')}\n{total['tokens']:,} tokens"
    return Row.of(total, [_SAMPLES], samples, out)
