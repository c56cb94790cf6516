"""Remove exact and near duplicates among documents, then lines and spans of sentences that repeat.

Decisions depend on the set of (uid, content) only, not on the order of documents, the number of tasks or the parts.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

from clozeline.errors import ConfigurationError
from clozeline.pipeline.dedup.config import DedupConfig
from clozeline.pipeline.dedup.exact import EXACT_VERSION, ExactHashes, ExactSurvivors
from clozeline.pipeline.dedup.near import NEAR_VERSION, NearCandidates, NearClusters, NearSignatures
from clozeline.pipeline.dedup.parts import SHUFFLES, DedupCounts, OtherOutput, Parts, count_ranges
from clozeline.pipeline.dedup.removal import Apply, Removals
from clozeline.pipeline.dedup.repeats import REPEATS_VERSION, Lines, PieceDrops, PieceHashes, Pieces, Spans
from clozeline.pipeline.execution.rewritten_documents import check_rewritten
from clozeline.pipeline.execution.stages import Pass, Row, Stage, amount, documents_folder
from clozeline.pipeline.execution.unit_record import require_equal
from clozeline.pipeline.text.normal_form import MATCH_VERSION, NormalForm
from clozeline.pipeline.text.sentences.regex import Regex


class DedupStage(Stage[DedupConfig, DedupCounts]):
    """Each type of duplicates: hashes per part, decisions per range; then a last pass rewrites the parts."""

    name: ClassVar[str] = "dedup"
    needs: ClassVar[tuple[str, ...]] = ("clean",)
    writes_documents: ClassVar[bool] = True

    def version(self) -> int:
        version = EXACT_VERSION + NEAR_VERSION + MATCH_VERSION
        splitter = 0 if self.config.spans is None else Regex.VERSION
        return version + (REPEATS_VERSION + splitter) * bool(chosen_pieces(self.config))

    @cached_property
    def _other(self) -> OtherOutput | None:
        return None if self.config.against is None else OtherOutput.open(self.config.against)

    def files(self) -> Mapping[str, str]:
        return {} if self._other is None else {"against": self._other.digest}

    def mistakes(self) -> Iterator[str]:
        """Yield what is wrong with the other output."""
        try:
            if self._other is not None and self._other.documents.parent.resolve() == self.folder.parent.resolve():
                yield f"dedup.against: {self.config.against}: expected another output, got that of this recipe"
        except ConfigurationError as error:
            yield str(error)

    @property
    def _parts(self) -> Parts:
        plan, documents = self.plan, documents_folder(self.recipe, self.name)
        return Parts(documents, self.folder, len(plan.units), count_ranges(plan.shards), self._other)

    def passes(self) -> Sequence[Pass[DedupCounts]]:
        parts = self._parts
        exact, near = self.config.exact, self.config.near
        bundles = {kind: parts.shuffle(kind).passes() for kind in SHUFFLES}
        passes: list[Pass[DedupCounts]] = []
        if exact is not None:
            passes += [ExactHashes(parts.units, parts, exact.key), *bundles["exact-hashes"]]
            passes += [ExactSurvivors(parts.ranges, parts, near is not None), *bundles["exact-drops"]]
            passes += bundles["exact-kept"] if near is not None else []
        if near is not None:
            after_exact = exact is not None
            passes += [NearSignatures(parts.units, parts, near, after_exact), *bundles["near-keys"]]
            passes += [NearCandidates(parts.ranges, parts), *bundles["near-candidates"]]
            passes += [NearClusters(parts, near, after_exact), *bundles["near-drops"]]
        pieces = chosen_pieces(self.config)
        removals = Removals(parts, exact is not None, near is not None, pieces, self.recipe.seed, self._stored_forms())
        for each in pieces:
            passes += [PieceHashes(parts, each, removals.before(each).documents), *bundles[f"{each.NAME}-hashes"]]
            passes += [PieceDrops(parts, each), *bundles[f"{each.NAME}-drops"]]
        return [*passes, Apply(parts.own, removals)]

    def _stored_forms(self) -> Mapping[str, NormalForm]:
        """Return the stored form that `clean` gave the texts, by source group."""
        clean = self.recipe.config_of("clean")
        groups = {planned.source_group for planned in self.plan.ranges}
        own = {group: clean.sources[group].normalize for group in groups & clean.sources.keys()}
        return {group: own.get(group) or clean.normalize for group in groups}

    def row(self, counts: DedupCounts) -> Row:
        before, after = (amount(counts[key], "document") for key in ("documents_in", "documents_out"))
        edited = f"\n{counts['edited']:,} of them edited" if counts.get("edited") else ""
        cut = {name: size for name, size in counts.get("cut", {}).items() if name != "edited"}
        cut |= {f"repeated {name}": size for name, size in counts.get("edits", {}).items()}
        return Row(
            before, after + edited, (("document", counts["rejected"]),), totals={"document": counts["documents_in"]},
            characters=counts.get("characters_in", 0), cut=cut,
        )  # fmt: skip

    def ruling_key(self, reason: str) -> str:
        return {f"{name}_duplicate": f"dedup.{name}" for name in ("exact", "near")}.get(reason, "dedup")

    def check(self, counts: DedupCounts) -> None:
        """Check that every document is kept or rejected, and that as many are rejected as the passes dropped."""
        check_rewritten(self.name, counts)
        if "documents_in" in counts:  # not per unit, where only one side is known: parts are read, ranges decide
            _check_passes(counts, counts["documents_in"], counts["rejected"])


def _check_passes(counts: DedupCounts, documents: int, rejected: Mapping[str, int]) -> None:
    """Check what each pass hands to the next: documents to hashes, hashes to decisions, decisions to rejections."""
    exact, near = counts.get("exact", {}), counts.get("near", {})
    for kind, passes in (("exact", exact), ("near", near)):
        if "dropped" in passes:
            applied = rejected.get(f"{kind}_duplicate", 0)
            require_equal("dedup", f"{kind} drops", passes["dropped"], "rejected", applied)
    if "without_key" in counts:
        hashed = counts["hashed"]
        require_equal("dedup", "documents_in", documents, "hashed + without_key", hashed + counts["without_key"])
        hashed += counts.get("other", {}).get("hashed", 0)
        require_equal("dedup", "hashed", hashed, "hashes compared", exact["compared"])
    if "keys" in near:
        require_equal("dedup", "documents that exact dedup left", documents - exact.get("dropped", 0), "signatures",
                      counts["signatures"])  # fmt: skip
        require_equal("dedup", "band keys", near["keys"], "band keys compared", near["compared_keys"])
        require_equal("dedup", "candidates", near["candidates"], "candidates compared", near["compared"])
    left = documents - sum(rejected.get(f"{kind}_duplicate", 0) for kind in ("exact", "near"))
    for name, pieces in counts.get("pieces", {}).items():
        if "documents" not in pieces:
            continue
        require_equal("dedup", f"documents with {name}", pieces["documents"], "documents left", left)
        require_equal("dedup", name, pieces["hashed"], f"{name} compared", pieces["compared"])
        require_equal("dedup", f"{name} to remove", pieces["dropped"], "read to be removed", pieces["applied"])
        left -= rejected.get(f"repeated_{name}", 0)


def chosen_pieces(config: DedupConfig) -> tuple[Pieces, ...]:
    """Return the types of pieces of texts to remove, in this order."""
    lines, spans, types = config.lines, config.spans, list[Pieces]()
    if lines is not None:
        types.append(
            Lines(lines.max_documents, lines.keep == "first", lines.within, 1, lines.numbers, lines.min_letters)
        )
    if spans is not None:
        types.append(Spans(None, True, spans.within, spans.sentences, spans.numbers))
    return tuple(types)
