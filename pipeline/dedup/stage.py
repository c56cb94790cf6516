"""Remove exact and near duplicates of documents, then what keys of extensions find within texts.

Decisions depend on the set of (uid, content) alone, not on the order of documents, the number of
tasks or the parts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from clozeline.errors import plural
from clozeline.pipeline.dedup.clusters import near_passes
from clozeline.pipeline.dedup.config import DedupConfig
from clozeline.pipeline.dedup.exact import ExactHashes, ExactSurvivors
from clozeline.pipeline.dedup.near import NearSignatures, Sketch
from clozeline.pipeline.dedup.parts import DedupCounts, Parts, count_ranges
from clozeline.pipeline.dedup.removal import RemovalTypes, RemoveDuplicates
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.rewritten_documents import REWRITE_EQUATIONS
from clozeline.pipeline.execution.stages import Pass, Stage
from clozeline.pipeline.text.normal_form import NormalForm


class DedupStage(Stage[DedupConfig, DedupCounts]):
    """Removes duplicates: hashes per part, decisions per range, then rewritten parts."""

    name = "dedup"
    after = ("clean",)
    cpu_seconds_per_mb = 0.034
    needs = ("clean",)
    writes_documents = True
    equations = REWRITE_EQUATIONS

    def validate(self) -> Iterator[str]:
        """Yield that no type compares documents, if an input asks for it."""
        if self.config.exact is None and self.config.near is None:
            for entry in self.recipe.input:
                if entry.role:
                    yield (
                        f"input {entry.path!r}: `role: compare` needs dedup.exact or dedup.near, "
                        "which compare documents; both are null"
                    )

    def passes(self) -> Iterator[Pass[DedupCounts]]:
        exact = self.config.exact
        near = self.config.near
        ranges = count_ranges(self.plan.shards)
        parts = Parts(self.plan.names, ranges, self.plan.compared, self._stored_forms())
        find = parts.shuffle

        if exact is not None:
            hashes = find("exact-hashes")
            drops = find("exact-drops")
            kept = None if near is None else find("exact-kept")
            hashing = {part: ExactHashes(part, exact.key, hashes) for part in parts.names}
            yield from parts.passes("exact-hashes", hashing)
            compared = sorted(parts.compared)
            survivors = {
                name: ExactSurvivors(name, compared, hashes.pieces, drops, kept)
                for name in parts.range_names
            }
            yield from parts.passes("exact-survivors", survivors)

        if near is not None:
            sketch = Sketch(near.ngram, near.bands, near.rows)
            keys = find("near-keys")
            earlier = parts.pieces("exact-drops")
            signing = {part: NearSignatures(part, sketch, keys, earlier) for part in parts.names}
            yield from parts.passes("near-signatures", signing)
            yield from near_passes(parts, near)

        found = parts.pieces("exact-drops"), parts.pieces("near-drops")
        removals = RemovalTypes(*found, (), self.recipe.seed)
        for key in self.config.parts():
            edits = yield from key.passes(parts, removals)
            removals = replace(removals, edits=(*removals.edits, edits))

        writing = {
            part: RemoveDuplicates(part, is_compared, removals)
            for part, is_compared in parts.compare.items()
        }
        yield Pass("main", writing)

    def _stored_forms(self) -> Mapping[str, NormalForm]:
        """Return the stored form that `clean` gave the texts, by source group."""
        clean = self.recipe.config_of("clean")
        groups = {planned.source_group for planned in self.plan.ranges}
        return {group: clean.of_source(group).normalize for group in groups}

    def row(self, counts: DedupCounts) -> StageRow:
        before, after = (
            plural(counts[key], "document") for key in ("documents_in", "documents_out")
        )
        edited = f"\n{counts['edited']:,} of them edited" if counts.get("edited") else ""
        row = StageRow.of(counts, REWRITE_EQUATIONS, before, after + edited)
        cut = dict(row.cut)
        cut.pop("edited", None)
        characters = counts["characters_in"] - cut.pop("for_comparison", 0)
        cut |= {f"repeated {name}": size for name, size in counts.get("edits", {}).items()}
        if compared := counts.get("for_comparison"):
            note = f"{plural(compared, 'document')} only compared, and not written"
            row = replace(row, notes=(*row.notes, note))
        return replace(row, cut=cut, characters=characters)

    def ruling_key(self, reason: str) -> str:
        return {f"{name}_duplicate": f"dedup.{name}" for name in ("exact", "near")}.get(
            reason, "dedup"
        )
