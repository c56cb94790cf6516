"""Repeat documents in training so that small languages and chosen sources get a larger share."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from clozeline.errors import ConfigurationError
from clozeline.pipeline.balance.cluster_sizes import WriteClusterSizes
from clozeline.pipeline.balance.config import SCORE_KEY, BalanceConfig
from clozeline.pipeline.balance.counts import BalanceCounts, LanguageCounts
from clozeline.pipeline.balance.pass_rates import RATES_KEY, SIZE_CLASSES, CountPassing
from clozeline.pipeline.balance.passes import (
    BALANCE_VERSION,
    CountTokens,
    MergeUnselected,
    SelectDocuments,
    WriteFactors,
)
from clozeline.pipeline.balance.score_buckets import BucketDocuments, MergeBuckets
from clozeline.pipeline.balance.selection import SELECTED_COLUMNS, Selection
from clozeline.pipeline.execution.stage_order import documents_folder
from clozeline.pipeline.execution.stages import Consumed, Pass, Row, Stage, amount
from clozeline.pipeline.execution.unit_record import require_equal
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.shards.splits import split_amount


class BalanceStage(Stage[BalanceConfig, BalanceCounts]):
    """Counts tokens and writes `factors.json`, which `group` reads; held-out documents always have one copy.

    Runs after `encode`, so that a changed exponent only repeats `group` and `corrupt`.
    """

    name: ClassVar[str] = "balance"
    order: ClassVar[int] = 65
    needs: ClassVar[tuple[str, ...]] = ("encode",)
    shared: ClassVar[tuple[str, ...]] = ("seed", "heldout")

    def expansion(self) -> float:
        return 0.0  # no documents

    def version(self) -> int:
        return BALANCE_VERSION

    def mistakes(self) -> Iterator[str]:
        """Report factors of sources that no input has, and a selection by columns that no filter writes."""
        known = {entry.source for entry in self.recipe.input}
        for source in sorted(self.config.sources.keys() - known if known else ()):
            yield f"balance.sources: no input has the source '{source}'; the inputs have {', '.join(sorted(known))}"

        rehydrate = self.config.rehydrate
        if (self.config.duplicates or rehydrate is not None) and not self.recipe.has("dedup"):
            key = "rehydrate" if rehydrate is not None else "duplicates"
            yield f"balance.{key}: expected the recipe's key 'dedup', whose clusters it counts; `dedup: {{}}` adds it"
        expressions = [("balance.select", self.config.select)]
        expressions += [] if rehydrate is None else [(RATES_KEY, rehydrate.passes)]
        if self.config.buckets is not None:
            expressions += [(SCORE_KEY, f"{name} > 0") for name in self.config.buckets.columns]
        for key, expression in expressions:
            if expression is not None:
                try:
                    Selection(expression, key).check_names(self._columns())
                except ConfigurationError as error:
                    yield str(error)

    def _columns(self) -> Iterator[str]:
        """Yield the columns of documents that an expression may name."""
        yield from SELECTED_COLUMNS
        clean = self.recipe.config_of("clean")
        for chosen in clean.annotate:
            if hasattr(chosen.type, "columns_of"):  # `clean` refuses others
                yield from chosen.type.columns_of(chosen.name)
        for filters in (clean.filters, *(source.filters or [] for source in clean.sources.values())):
            for chosen in filters:
                yield from getattr(chosen.type, "writes", ())

    def passes(self) -> Sequence[Pass[BalanceCounts]]:
        """Return the passes; those that select documents come first, before tokens are counted."""
        tokens, config, select = self.recipe.folder("encode"), self.config, self.config.select
        passes: list[Pass[BalanceCounts]] = []
        rehydrate, duplicates = config.rehydrate, config.duplicates
        if select is not None:
            parts = len(self.plan.units)
            passes = [
                SelectDocuments(parts, documents_folder(self.recipe, "encode"), select),
                MergeUnselected(parts, select),
            ]
        shards = len(Manifest.load(tokens).shards)
        if duplicates or rehydrate is not None:
            passes.append(WriteClusterSizes(self.recipe.folder("dedup")))
        if rehydrate is not None:
            duplicates = dict.fromkeys(SIZE_CLASSES, 1.0)  # `WriteFactors` computes their factors
            passes.append(CountPassing(len(self.plan.units), documents_folder(self.recipe, "encode"), rehydrate.passes))
        if config.buckets is not None:
            parts = len(self.plan.units)
            passes += [
                BucketDocuments(parts, documents_folder(self.recipe, "encode"), config.buckets),
                MergeBuckets(parts),
            ]
        held_out, seed = self.recipe.heldout.fraction, self.recipe.seed
        most = None if rehydrate is None else rehydrate.most
        return [
            *passes,
            CountTokens(shards, tokens, held_out, seed, duplicates, select is not None, config.buckets),
            WriteFactors(config.alpha, config.max_copies, config.sources, duplicates, most, config.buckets),
        ]

    def row(self, counts: BalanceCounts) -> Row:
        """Show all documents, and of the training documents the tokens before and after balancing."""
        documents, tokens = (sum(source[key] for source in _all_sources(counts)) for key in ("documents", "tokens"))
        balanced = sum(counts["balanced"].values())
        out = f"{amount(documents, 'document')}\n{tokens:,} tokens\n{balanced:,} in copies"
        return Row(amount(counts["documents_in"], "document"), out, (("document", counts["skipped"]),))

    def consumes(self, counts: BalanceCounts) -> Sequence[Consumed]:
        if "documents_in" not in counts:
            return []
        training = sum(source["documents"] for source in _all_sources(counts))
        training += counts["skipped"].get("not_selected", 0)
        held_out = Consumed(split_amount("heldout", "documents"), counts["skipped"]["held_out"])
        return [*super().consumes(counts), held_out, Consumed(split_amount("train", "documents"), training)]

    def check(self, counts: BalanceCounts) -> None:
        if "documents_in" in counts:
            total = sum(source["documents"] for source in _all_sources(counts)) + sum(counts["skipped"].values())
            require_equal(self.name, "documents_in", counts["documents_in"], "texts + pairs + skipped", total)


def _all_sources(counts: BalanceCounts) -> list[LanguageCounts]:
    kinds = (counts.get("texts", {}), counts.get("pairs", {}))
    return [source for kind in kinds for by_source in kind.values() for source in by_source.values()]
