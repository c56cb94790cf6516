"""Repeat documents in training so that small languages and chosen sources get a larger share."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from clozeline.pipeline.balance.config import BalanceConfig
from clozeline.pipeline.balance.passes import (
    BALANCE_VERSION,
    BalanceCounts,
    CountTokens,
    LanguageCounts,
    WriteFactors,
)
from clozeline.pipeline.execution.equations import EACH, Equation, Row
from clozeline.pipeline.execution.stages import Consumed, Pass, Stage, amount
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.shards.layout import split_amount

_NAMED: Final = 8
"""Languages whose shares are named."""


class BalanceStage(Stage[BalanceConfig, BalanceCounts]):
    """Counts tokens and writes `factors.json`, which `group` reads; held-out documents always have one copy.

    Runs after `encode`, so that a changed exponent only repeats `group` and `corrupt`.
    """

    name: ClassVar[str] = "balance"
    needs: ClassVar[tuple[str, ...]] = ("encode",)
    shared: ClassVar[tuple[str, ...]] = ("seed", "heldout")

    equations: ClassVar[tuple[Equation, ...]] = (
        Equation(["documents_in"], [*((kind, EACH, EACH, "documents") for kind in ("texts", "pairs")), "skipped"]),
    )

    def version(self) -> int:
        return BALANCE_VERSION

    def mistakes(self) -> Iterator[str]:
        """Report factors of sources that no input has."""
        known = {entry.source for entry in self.recipe.input}
        for source in sorted(self.config.sources.keys() - known if known else ()):
            yield f"balance.sources: no input has the source '{source}'; the inputs have {', '.join(sorted(known))}"

    def passes(self) -> Sequence[Pass[BalanceCounts]]:
        tokens, config, recipe = self.recipe.folder("encode"), self.config, self.recipe
        return [
            CountTokens(len(Manifest.load(tokens).shards), tokens, recipe.heldout.fraction, recipe.seed),
            WriteFactors(config.alpha, config.max_copies, config.sources),
        ]

    def row(self, counts: BalanceCounts) -> Row:
        """Show all documents, and of the training documents the tokens before and after balancing."""
        documents, tokens = (sum(source[key] for source in _all_sources(counts)) for key in ("documents", "tokens"))
        balanced = counts["balanced"]
        total = sum(balanced.values())
        out = f"{amount(documents, 'document')}\n{tokens:,} tokens"
        largest = sorted(balanced.items(), key=lambda item: (-item[1], item[0]))[:_NAMED]
        shares = ", ".join(f"{language} {100 * count / max(1, total):.0f} %" for language, count in largest)
        held_out = counts["skipped"]["held_out"]
        notes = (
            f"after balancing: {total:,} tokens in training, of them {shares or 'none'}",
            f"{amount(held_out, 'document')} kept for testing, which {'is' if held_out == 1 else 'are'} not dropped",
        )
        return Row(amount(counts["documents_in"], "document"), out, notes=notes)

    def consumes(self, counts: BalanceCounts) -> Sequence[Consumed]:
        if "documents_in" not in counts:
            return []
        training = sum(source["documents"] for source in _all_sources(counts))
        held_out = Consumed(split_amount("heldout", "documents"), counts["skipped"]["held_out"])
        return [*super().consumes(counts), held_out, Consumed(split_amount("train", "documents"), training)]


def _all_sources(counts: BalanceCounts) -> list[LanguageCounts]:
    kinds = (counts.get("texts", {}), counts.get("pairs", {}))
    return [source for kind in kinds for by_source in kind.values() for source in by_source.values()]
