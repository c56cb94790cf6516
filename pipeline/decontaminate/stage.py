"""Find the items of evaluation sets in the documents; drop, mask or label the documents that hold them.

The items are indexed by their runs of 13 words in the match form, without case, marks and digits (GPT-3, arXiv
2005.14165, appendix C). Decisions depend on the sets of documents and items only, not on any order.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field
from pydantic.functional_validators import BeforeValidator

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.decontaminate.actions import ACTIONS_VERSION, ActionName
from clozeline.pipeline.decontaminate.counts import DecontaminateCounts
from clozeline.pipeline.decontaminate.evaluation_items import (
    EvaluationSet,
    evaluation_files,
    read_items,
    version_of,
)
from clozeline.pipeline.decontaminate.passes import Apply, DecideMatches, FindMatches, WriteIndex
from clozeline.pipeline.execution.stage_order import documents_folder
from clozeline.pipeline.execution.stages import Pass, Row, Stage, amount
from clozeline.pipeline.execution.unit_record import require_equal
from clozeline.pipeline.kernels.ngram_index import FEWEST_WORDS, INDEX_VERSION
from clozeline.pipeline.text.normal_form import MATCH_VERSION
from clozeline.seeding import hash64


def _sets(value: Any) -> Any:
    """Return a path, or paths in a list, as evaluation sets."""
    return [
        {"path": entry} if isinstance(entry, str) else entry
        for entry in (value if isinstance(value, list) else [value])
    ]


@config_class
class DecontaminateConfig:
    """Evaluation items to find, and what to do with the documents that hold them."""

    against: Annotated[list[EvaluationSet], BeforeValidator(_sets)]
    """evaluation sets: paths, or {path: squad/dev.json, reader: {name: squad}}"""
    ngram: Annotated[int, Field(le=1000)] = 13
    """words of a run, 5 to 1000; a shorter text of an item counts as one run if it has 5 words"""
    action: ActionName = "drop"
    """`drop` the document; `mask`: remove the runs and 200 characters around each, and drop a document that would lose
    more than 10 spans; `label`: keep it, with the items that it holds in `extra`"""
    max_document_frequency: Annotated[int, Field(ge=1)] = 10
    """documents, ≥ 1; a run that more of them hold is a common phrase: it is ignored, and listed"""

    def __post_init__(self) -> None:
        if not self.against:
            raise ValueError("against: expected evaluation files, got none: leave the key `decontaminate` out instead")
        if self.ngram < FEWEST_WORDS:
            raise ValueError(
                f"ngram: expected {FEWEST_WORDS} words or more, got {self.ngram}: shorter runs are common phrases; "
                "13 is usual"
            )


class DecontaminateStage(Stage[DecontaminateConfig, DecontaminateCounts]):
    """Index the items, look up the documents, decide which matches count, rewrite the parts."""

    name: ClassVar[str] = "decontaminate"
    order: ClassVar[int] = 25
    needs: ClassVar[tuple[str, ...]] = ("clean",)
    writes_documents: ClassVar[bool] = True
    shared: ClassVar[tuple[str, ...]] = ("seed", "limits")

    def version(self) -> int:
        files = version_of(evaluation_files(self.config.against))
        return hash64(INDEX_VERSION, ACTIONS_VERSION, MATCH_VERSION, *files)

    def mistakes(self) -> Iterator[str]:
        """Yield what is wrong with evaluation files, as far as their first items tell."""
        for file in evaluation_files(self.config.against):
            try:
                next(read_items(file, self.recipe.limits), None)
            except ConfigurationError as error:
                yield str(error)

    def passes(self) -> Sequence[Pass[DecontaminateCounts]]:
        config, units = self.config, len(self.plan.units)
        files = tuple(evaluation_files(config.against))
        documents = documents_folder(self.recipe, self.name)
        return [
            WriteIndex(files, config.ngram, self.recipe.limits),
            FindMatches(units, documents, self.folder),
            DecideMatches(files, units, config.max_document_frequency),
            Apply(units, documents, self.folder, files, config.action, self.recipe.seed),
        ]

    def row(self, counts: DecontaminateCounts) -> Row:
        before, after = (amount(counts[key], "document") for key in ("documents_in", "documents_out"))
        changed = [f"\n{counts[name]:,} of them {name}" for name in ("masked", "labeled") if counts[name]]
        return Row(before, after + "".join(changed), (("document", counts["rejected"]),))

    def check(self, counts: DecontaminateCounts) -> None:
        """Check that all documents are looked up, and that each one with a match is dropped, masked or labeled."""
        rejected, matches = sum(counts.get("rejected", {}).values()), counts.get("matches", {})
        require_equal(self.name, "documents_in", counts.get("documents_in", 0), "documents_out + rejected",
                      counts.get("documents_out", 0) + rejected)  # fmt: skip
        kept = counts.get("characters_out", 0) + sum(counts.get("characters_removed", {}).values())
        require_equal(self.name, "characters_in", counts.get("characters_in", 0), "characters_out + removed", kept)
        if "documents_in" in counts and "compared" in counts:  # the sum of all units
            require_equal(self.name, "documents looked up", counts["compared"], "documents_in", counts["documents_in"])
            require_equal(self.name, "matches found", matches["found"], "matches counted", matches["counted"])
            require_equal(self.name, "matches found", matches["found"], "matches taken + ignored",
                          matches["taken"] + matches["ignored"])  # fmt: skip
            changed = rejected + counts["masked"] + counts["labeled"]
            require_equal(self.name, "contaminated documents", counts["contaminated_documents"],
                          "rejected + masked + labeled", changed)  # fmt: skip
