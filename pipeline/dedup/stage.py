"""Remove exact and near duplicates of documents, then repeated lines and spans of sentences.

Decisions depend on the set of (uid, content) alone, not on the order of documents, the number of
tasks or the parts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import ClassVar, Final

from clozeline.errors import ConfigurationError, plural
from clozeline.pipeline.dedup.against import OtherOutput
from clozeline.pipeline.dedup.clusters import near_passes
from clozeline.pipeline.dedup.config import DedupConfig
from clozeline.pipeline.dedup.exact import ExactHashes, ExactSurvivors
from clozeline.pipeline.dedup.near import NearSignatures
from clozeline.pipeline.dedup.parts import DedupCounts, Parts, count_ranges
from clozeline.pipeline.dedup.repeats import (
    LinePieces,
    PieceDrops,
    PieceHashes,
    RemovalTypes,
    RemoveDuplicates,
    SpanPieces,
    TextPieces,
)
from clozeline.pipeline.execution.equations import EACH, Equation, StageRow
from clozeline.pipeline.execution.rewritten_documents import REWRITE_EQUATIONS
from clozeline.pipeline.execution.stages import Pass, Stage
from clozeline.pipeline.text.normal_form import NormalForm

_DUPLICATES: Final = (("rejected", "exact_duplicate"), ("rejected", "near_duplicate"))


class DedupStage(Stage[DedupConfig, DedupCounts]):
    """Removes duplicates: hashes per part, decisions per range, then rewritten parts."""

    name: ClassVar[str] = "dedup"
    cpu_seconds_per_mb: ClassVar[float] = 0.16
    needs: ClassVar[tuple[str, ...]] = ("clean",)
    writes_documents: ClassVar[bool] = True
    equations: ClassVar[tuple[Equation, ...]] = (
        *REWRITE_EQUATIONS,
        # the drops of each type equal the documents rejected for it
        Equation(
            [("exact", "dropped")],
            [("rejected", "exact_duplicate")],
            counted=("exact", "dropped"),
            of_stage=True,
        ),
        Equation(
            [("near", "dropped")],
            [("rejected", "near_duplicate")],
            counted=("near", "dropped"),
            of_stage=True,
        ),
        # exact duplicates: each document has a key or none, and all keys are compared
        Equation(["documents_in"], ["hashed", "without_key"], counted="without_key", of_stage=True),
        Equation(
            ["hashed", ("other", "hashed")],
            [("exact", "compared")],
            counted="without_key",
            of_stage=True,
        ),
        # near duplicates: each document that exact dedup keeps has a signature
        Equation(
            ["documents_in"],
            [("exact", "dropped"), "signatures"],
            counted="signatures",
            of_stage=True,
        ),
        # repeated pieces of the remaining documents: first lines, then spans
        Equation(
            ["documents_in"],
            [("pieces", "lines", "documents"), *_DUPLICATES],
            counted=("pieces", "lines", "documents"),
            of_stage=True,
        ),
        Equation(
            ["documents_in"],
            [("pieces", "spans", "documents"), *_DUPLICATES, ("rejected", "repeated_lines")],
            counted=("pieces", "spans", "documents"),
            of_stage=True,
        ),
        Equation(["hashed"], ["compared"], within=("pieces", EACH), of_stage=True),
        Equation(["dropped"], ["applied"], within=("pieces", EACH), of_stage=True),
    )

    @cached_property
    def _others(self) -> tuple[OtherOutput, ...]:
        return tuple(map(OtherOutput.open, self.config.others))

    def validate(self) -> Iterator[str]:
        """Yield the faults of other outputs."""
        try:
            outputs = [other.output.resolve() for other in self._others]
        except ConfigurationError as error:
            yield str(error)
            return

        for path, output in zip(self.config.others, outputs, strict=True):
            if output == self.folder.parent.resolve():
                yield (
                    f"dedup.against: {path}: this is the output of this recipe; name another output"
                )
            if outputs.count(output) > 1:
                yield f"dedup.against: {path} is named twice: name each output once"

    @property
    def _parts(self) -> Parts:
        return Parts(self.documents, self.folder, count_ranges(self.plan.shards), self._others)

    def passes(self) -> Iterator[Pass[DedupCounts]]:
        parts = self._parts
        exact = self.config.exact
        near = self.config.near

        if exact is not None:
            yield ExactHashes(parts.units, parts, exact.key)
            yield from parts.bundles("exact-hashes")
            yield ExactSurvivors(parts.ranges, parts, near is not None)
            yield from parts.bundles("exact-drops")
            yield from parts.bundles("exact-kept") if near is not None else []

        if near is not None:
            yield NearSignatures(parts.units, parts, near, exact is not None)
            yield from parts.bundles("near-keys")
            yield from near_passes(parts, near, exact is not None)

        pieces = choose_pieces(self.config)
        removals = RemovalTypes(
            parts,
            exact is not None,
            near is not None,
            pieces,
            self.recipe.seed,
            self._stored_forms(),
        )

        for each in pieces:
            yield PieceHashes(each, removals.earlier_types(each))
            yield from parts.bundles(f"{each.NAME}-hashes")
            yield PieceDrops(parts, each)
            yield from parts.bundles(f"{each.NAME}-drops")

        yield RemoveDuplicates(parts.local_parts, removals)

    def _stored_forms(self) -> Mapping[str, NormalForm]:
        """Return the stored form that `clean` gave the texts, by source group."""
        clean = self.recipe.config_of("clean")
        groups = {planned.source_group for planned in self.plan.ranges}
        of_sources = {
            group: clean.sources[group].normalize for group in groups & clean.sources.keys()
        }
        return {group: of_sources.get(group) or clean.normalize for group in groups}

    def row(self, counts: DedupCounts) -> StageRow:
        before, after = (
            plural(counts[key], "document") for key in ("documents_in", "documents_out")
        )
        edited = f"\n{counts['edited']:,} of them edited" if counts.get("edited") else ""
        row = StageRow.of(counts, REWRITE_EQUATIONS, before, after + edited)
        cut = {name: size for name, size in row.cut.items() if name != "edited"}
        cut |= {f"repeated {name}": size for name, size in counts.get("edits", {}).items()}
        return replace(row, cut=cut)

    def ruling_key(self, reason: str) -> str:
        return {f"{name}_duplicate": f"dedup.{name}" for name in ("exact", "near")}.get(
            reason, "dedup"
        )


def choose_pieces(config: DedupConfig) -> tuple[TextPieces, ...]:
    """Return the types of pieces to remove, in this order."""
    lines = config.lines
    spans = config.spans
    types = list[TextPieces]()

    if lines is not None:
        types.append(
            LinePieces(
                lines.max_documents,
                lines.keep == "first",
                lines.within,
                1,
                lines.numbers,
                lines.min_letters,
            )
        )

    if spans is not None:
        types.append(SpanPieces(None, True, spans.within, spans.sentences, spans.numbers))
    return tuple(types)
