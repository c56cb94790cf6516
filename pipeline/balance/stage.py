"""Balance: how many copies of each document training reads, so that small languages and chosen sources weigh more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.pipeline.balance.counts import BalanceCounts, LanguageCounts
from clozeline.pipeline.balance.passes import BALANCE_VERSION, CountTokens, WriteFactors
from clozeline.pipeline.execution.stages import Pass, Row, Stage, Taken, amount
from clozeline.pipeline.execution.unit_record import require_equal
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.shards.splits import split_amount


@dataclass(frozen=True, kw_only=True, config=STRICT)
class BalanceConfig:
    """Share of each language and source in training."""

    alpha: Annotated[float, Field(ge=0, le=1)] = 0.3
    """exponent of the tokens of a language that gives its share, 0 (all alike) to 1 (natural): 0.7 XLM and mBERT, 0.3
    XLM-R and mT5"""
    max_copies: Annotated[int, Field(ge=1, le=255)] = 4
    """most copies of a document, 1 to 255; a language that needs more has a smaller share, and a warning says so"""
    sources: dict[str, Annotated[float, Field(gt=0, le=255)]] = field(default_factory=dict)
    """factor of the copies of each source of the input, above 0; default: 1"""


class BalanceStage(Stage[BalanceConfig, BalanceCounts]):
    """Counts tokens and writes `factors.json`, which `group` reads. Held-out documents always have one copy.

    It comes after `encode`: another exponent changes no token, so only `group` and `corrupt` are made again.
    """

    name: ClassVar[str] = "balance"
    place: ClassVar[int] = 65
    needs: ClassVar[tuple[str, ...]] = ("encode",)
    shared: ClassVar[tuple[str, ...]] = ("seed", "heldout")

    @property
    def _tokens(self) -> Path:
        return self.recipe.folder("encode")

    def version(self) -> int:
        """Return the version of the counts and of the law."""
        return BALANCE_VERSION

    def mistakes(self) -> Iterator[str]:
        """Name the sources with a factor that no input has."""
        known = {entry.source for entry in self.recipe.input}
        for source in sorted(self.config.sources.keys() - known if known else ()):
            yield f"balance.sources: no input has the source '{source}'; the inputs have {', '.join(sorted(known))}"

    def passes(self) -> Sequence[Pass[BalanceCounts]]:
        """Return the passes: one unit a token shard, then one for the factors."""
        shards, config = len(Manifest.load(self._tokens).shards), self.config
        return [
            CountTokens(shards, self._tokens, self.recipe.heldout.fraction, self.recipe.seed),
            WriteFactors(config.alpha, config.max_copies, config.sources),
        ]

    def row(self, counts: BalanceCounts) -> Row:
        """Show documents, and the tokens of those for training: their own, and those of copies on average."""
        documents, tokens = (sum(one[key] for one in _counted(counts)) for key in ("documents", "tokens"))
        balanced = sum(counts["balanced"].values())
        out = f"{amount(documents, 'document')}\n{tokens:,} tokens\n{balanced:,} in copies"
        return Row(amount(counts["documents_in"], "document"), out, (("document", counts["skipped"]),))

    def taken(self, counts: BalanceCounts) -> Sequence[Taken]:
        """Return the documents of both splits."""
        if "documents_in" not in counts:
            return []
        training = sum(one["documents"] for one in _counted(counts))
        held_out = Taken(split_amount("heldout", "documents"), counts["skipped"]["held_out"])
        return [*super().taken(counts), held_out, Taken(split_amount("train", "documents"), training)]

    def check(self, counts: BalanceCounts) -> None:
        """Check that every document is held out, a text or a pair."""
        if "documents_in" in counts:
            accounted = sum(one["documents"] for one in _counted(counts)) + sum(counts["skipped"].values())
            require_equal(self.name, "documents_in", counts["documents_in"], "texts + pairs + skipped", accounted)


def _counted(counts: BalanceCounts) -> list[LanguageCounts]:
    """Return the counts of every kind, language and source."""
    kinds = (counts.get("texts", {}), counts.get("pairs", {}))
    return [one for kind in kinds for by_source in kind.values() for one in by_source.values()]
