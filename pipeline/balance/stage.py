"""Repeat documents in training so that small languages and chosen sources get a larger share."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any, ClassVar

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.balance.cluster_sizes import WriteClusterSizes
from clozeline.pipeline.balance.counts import BalanceCounts, LanguageCounts
from clozeline.pipeline.balance.pass_rates import RATES_KEY, SIZE_CLASSES, CountPassing
from clozeline.pipeline.balance.passes import (
    BALANCE_VERSION,
    CountTokens,
    MergeUnselected,
    SelectDocuments,
    WriteFactors,
)
from clozeline.pipeline.balance.score_buckets import SCORE_KEY, BucketDocuments, MergeBuckets, ScoreBuckets
from clozeline.pipeline.balance.selection import SELECTED_COLUMNS, Selection
from clozeline.pipeline.execution.kept_state import KeptState
from clozeline.pipeline.execution.stage_order import documents_folder
from clozeline.pipeline.execution.stages import Consumed, Pass, Row, Stage, amount
from clozeline.pipeline.execution.unit_record import require_equal
from clozeline.pipeline.ingest.documents.copies import FACTORS_FILE
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.shards.splits import split_amount
from clozeline.recorded_file import find_file


@config_class
class Rehydration:
    """Copies by cluster size, from the share of documents of that size that pass filters (arXiv 2506.20920)."""

    passes: str
    """documents that pass, an expression as in `select`, such as `gopher_quality == ''`"""
    most: Annotated[float, Field(ge=1, le=255)] = 3.0
    """factor of the sizes with the highest share; it falls to 1 for the share of all documents and below"""


@config_class
class BalanceConfig:
    """Share of each language and source in the training data."""

    alpha: Annotated[float, Field(ge=0, le=1)] = 0.3
    """exponent of the language sampling, 0 (equal shares) to 1 (natural proportions): 0.7 XLM and mBERT, 0.3 XLM-R
    and mT5"""
    max_copies: Annotated[int, Field(ge=1, le=255)] = 4
    """maximum copies of a document, 1 to 255; a language that needs more gets a smaller share, with a warning"""
    sources: dict[str, Annotated[float, Field(gt=0, le=255)]] = field(default_factory=dict)
    """factor on the copies of each input source, above 0; default 1"""
    select: str | None = None
    """documents to train on and to hold out, such as `quality > 0.7 and language == 'en'`: columns are `language`,
    `language_score`, `source_group`, `host`, `url`, `n_chars`, `n_words`, `flags`, what filters of `clean` write, and
    `extra.NAME` for fields of the input; default: all documents"""
    duplicates: dict[Annotated[int, Field(ge=1)], Annotated[float, Field(ge=0, le=255)]] = field(default_factory=dict)
    """cluster size → further factor on the copies of the document that dedup kept of the cluster, 0 to 255; other sizes
    take the factor of the next smaller one, and below all it is 1: {2: 1.5, 10: 3} repeats what a crawl holds often"""
    rehydrate: Rehydration | None = None
    """factors of cluster sizes that follow from the documents, instead of `duplicates`"""

    buckets: ScoreBuckets | None = None
    """further factors by the bucket of a score: `{score: quality, edges: [0.3, 0.6, 0.9], weights: [0, 1, 2, 4]}`"""

    def __post_init__(self) -> None:
        if self.rehydrate is not None and self.duplicates:
            raise ValueError("expected `duplicates` (a table) or `rehydrate` (a rule), got both; remove one of them")


class BalanceStage(Stage[BalanceConfig, BalanceCounts]):
    """Counts tokens and writes `factors.json`, which `group` reads; held-out documents always have one copy.

    Runs after `encode`, so that a changed exponent only repeats `group` and `corrupt`.
    """

    name: ClassVar[str] = "balance"
    order: ClassVar[int] = 65
    needs: ClassVar[tuple[str, ...]] = ("encode",)
    shared: ClassVar[tuple[str, ...]] = ("seed", "heldout")
    added: ClassVar[tuple[str, ...]] = ("select", "duplicates", "rehydrate", "buckets")

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
            WriteFactors(
                config.alpha, config.max_copies, config.sources, duplicates, most, config.buckets, self.kept_values()
            ),
        ]

    def to_keep(self) -> dict[str, Any]:
        """Return the factors of the complete stage."""
        content = json.loads(find_file(self.folder, "000000", FACTORS_FILE).text())
        return {"factors": content["factors"], "duplicates": content.get("duplicates", {})}

    def kept_values(self) -> Mapping[str, Any]:
        """Return the factors that stay while the run grows."""
        kept: Mapping[str, Any] | None = KeptState.load(self.recipe.output_folder).of(self.name, self.own_digest())
        return kept or {}

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
