"""Find the items of evaluation sets in the documents, and drop the documents that hold them.

The items are indexed by their runs of 13 words in the match form, without case, marks and digits (GPT-3, arXiv
2005.14165, appendix C). Decisions depend on the sets of documents and items only, not on any order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from clozeline.errors import ConfigurationError
from clozeline.pipeline.decontaminate.config import DecontaminateConfig
from clozeline.pipeline.decontaminate.evaluation_items import evaluation_files, read_items, version_of
from clozeline.pipeline.decontaminate.passes import Apply, DecideMatches, DecontaminateCounts, FindMatches, WriteIndex
from clozeline.pipeline.execution.equations import EACH, Equation, Row
from clozeline.pipeline.execution.rewritten_documents import REWRITE_EQUATIONS
from clozeline.pipeline.execution.stages import Pass, Stage, amount, documents_folder
from clozeline.pipeline.kernels.ngram_index import INDEX_VERSION
from clozeline.pipeline.text.normal_form import MATCH_VERSION
from clozeline.seeding import hash64


class DecontaminateStage(Stage[DecontaminateConfig, DecontaminateCounts]):
    """Index the items, look up the documents, decide which matches count, rewrite the parts."""

    name: ClassVar[str] = "decontaminate"
    needs: ClassVar[tuple[str, ...]] = ("clean",)
    writes_documents: ClassVar[bool] = True
    shared: ClassVar[tuple[str, ...]] = ("seed", "limits")

    equations: ClassVar[tuple[Equation, ...]] = (
        *REWRITE_EQUATIONS,
        # all documents are looked up, and each one with a match is dropped
        Equation(["documents_in"], ["compared"], of_stage=True),
        Equation([("matches", "found")], [("matches", "counted")], of_stage=True),
        Equation([("matches", "found")], [("matches", "taken"), ("matches", "ignored")], of_stage=True),
        Equation(["contaminated_documents"], ["rejected"], of_stage=True),
        Equation([("suites", EACH, "items")], ["reported"], of_stage=True),
    )

    def version(self) -> int:
        files = version_of(evaluation_files(self.config.against))
        return hash64(INDEX_VERSION, MATCH_VERSION, *files)

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
            DecideMatches(files, units, self.recipe.limits, config.max_document_frequency),
            Apply(units, documents, self.folder, self.recipe.seed),
        ]

    def row(self, counts: DecontaminateCounts) -> Row:
        before, after = (amount(counts[key], "document") for key in ("documents_in", "documents_out"))
        unreadable = sum(suite["unreadable"] for suite in counts["suites"].values())
        row = Row.of(counts, self.equations, before, after)
        return replace(row, left_out=(*row.left_out, ("evaluation row", {"without a text": unreadable})))
