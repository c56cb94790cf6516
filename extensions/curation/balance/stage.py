"""Repeat documents in training, so that small languages and chosen sources get larger shares."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, TypeAlias

from clozeline.errors import plural
from clozeline.extensions.curation.balance.config import BalanceConfig
from clozeline.extensions.curation.balance.copies import (
    FACTORS,
    FACTORS_FORMAT,
    LANGUAGE,
    SOURCE,
    BalancedCopies,
    add_up_by,
    iterate_groups,
)
from clozeline.pipeline.execution.contributions import ParentFile
from clozeline.pipeline.execution.equations import Equation, StageRow, add_up
from clozeline.pipeline.execution.stages import Pass, Stage, Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import Counts, Output, add_counts
from clozeline.pipeline.group.documents import count_tokens
from clozeline.pipeline.kernels.rates import power_shares
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.shards.layout import is_heldout

BALANCE_VERSION: Final = 2
_TEXT_TYPES: Final = ("texts", "pairs")
Amounts: TypeAlias = Mapping[str, int]
"""Tokens by group of documents: see `iterate_groups`."""


class BalanceCounts(Counts, total=False):
    """Counts of a unit of `balance`."""

    documents: int  # training documents
    skipped: dict[str, int]  # documents without copies, by reason
    tokens: dict[str, Amounts]  # training tokens of `texts` and `pairs`, of both sides


@dataclass(frozen=True)
class CountTokens(Unit[BalanceCounts]):
    """Count the training documents and tokens of a token shard by language and source."""

    VERSION = BALANCE_VERSION
    shard: int
    heldout: float
    seed: int

    def run(self, inputs: UnitInputs, output: Output) -> BalanceCounts:
        tokens = inputs.shards("encode", "manifest", "000000", "manifest.json", [self.shard])
        counts: BalanceCounts = {"documents_in": 0, "skipped": {"held_out": 0}}

        for rows in tokens.blocks():
            counts["documents_in"] += len(rows)
            sizes = count_tokens(rows)
            is_pair = (sizes > rows.columns["token_ids"].lengths).tolist()

            for row, group in enumerate(iterate_groups(rows, tokens)):
                if is_heldout(rows.fixed["document_uid"][row].tobytes(), self.heldout, self.seed):
                    counts["skipped"]["held_out"] += 1
                    continue
                by_type = {_TEXT_TYPES[is_pair[row]]: {group: int(sizes[row])}}
                add_counts(counts, {"documents": 1, "tokens": by_type})

        return counts


@dataclass(frozen=True)
class WriteFactors(Unit[BalanceCounts]):
    """Write `factors.json`."""

    VERSION = BALANCE_VERSION
    config: BalanceConfig

    def run(self, inputs: UnitInputs, output: Output) -> BalanceCounts:
        """Sum the counts of the shards and write the factors."""
        counts: BalanceCounts = inputs.sum_counts("balance", "count")
        tokens, _, balanced = mix(counts.get("tokens", {}), self.config)
        factors = {group: str(Fraction(count, tokens[group])) for group, count in balanced.items()}

        with output.file(FACTORS.name) as path:
            content = {"format": FACTORS_FORMAT, "factors": factors}
            text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
            path.write_text(text + "\n", encoding="utf-8")

        return {}


def mix(by_type: Mapping[str, Amounts], config: BalanceConfig) -> tuple[Amounts, Amounts, Amounts]:
    """Return the tokens, those of the copies that give the shares, and those of `max_copies`.

    Languages of texts and of pairs are balanced separately, then sources over both.
    """
    tokens: dict[str, int] = {}
    wanted: dict[str, int] = {}
    for amounts in by_type.values():
        tokens |= amounts
        shares = power_shares(add_up_by(LANGUAGE, amounts), config.alpha)
        wanted |= _scale(LANGUAGE, amounts, shares)

    wanted = share_out(wanted, config.sources)
    most = config.max_copies
    return tokens, wanted, {group: min(wanted[group], most * tokens[group]) for group in wanted}


def share_out(amounts: Amounts, shares: Mapping[str, float]) -> dict[str, int]:
    """Return the tokens of all copies if the sources have their shares; the total is unchanged.

    Sources without a share keep their proportions in the rest, and languages theirs in a source.

    Example: 900 tokens of web and 100 of books with a share of 0.5 become 500 each.
    """
    before = add_up_by(SOURCE, amounts)
    asked = {source: Fraction(repr(shares[source])) for source in shares.keys() & before}
    others = before.total() - sum(before[source] for source in asked)
    rest = Fraction(1 - sum(asked.values())) / (others or 1)
    return _scale(SOURCE, amounts, {name: rest * count for name, count in before.items()} | asked)


def _scale(part: int, amounts: Amounts, shares: Mapping[str, Fraction]) -> dict[str, int]:
    """Return the amounts if each language or source has its share of the total."""
    sums = add_up_by(part, amounts)
    total = sums.total()
    names = {group: group.partition(" ")[part] for group in amounts}
    return {
        group: round(shares[name] * total * amounts[group] / sums[name])
        for group, name in names.items()
    }


_MOST_NAMED: Final = 8
"""Maximum languages whose shares are shown."""


class BalanceStage(Stage[BalanceConfig, BalanceCounts]):
    """Counts tokens and writes `factors.json`, which `group` reads.

    Held-out documents always have one copy. It runs after `encode`, so that a changed exponent only
    repeats `group` and `corrupt`.
    """

    name = "balance"
    after = ("encode",)
    before = ("group",)
    cpu_seconds_per_mb = 0.004
    needs = ("encode",)
    parent_files: ClassVar[Mapping[str, ParentFile]] = {"group": FACTORS}
    equations = (Equation(["documents_in"], ["documents", "skipped"]),)

    @property
    def document_copies(self) -> BalancedCopies:
        return BalancedCopies(self.recipe.seed)

    def validate(self) -> Iterator[str]:
        """Yield sources with a share that no input has, and shares of all sources below 1."""
        if any(entry.keeps_documents for entry in self.recipe.input):
            return  # with labels of another run
        shares = self.config.sources
        known = {entry.source for entry in self.recipe.input}
        for source in sorted(shares.keys() - known if known else ()):
            yield (
                f"balance.sources: no input has the source '{source}'; the inputs have "
                f"{', '.join(sorted(known))}"
            )
        if known and known <= shares.keys() and self.config.total_share < 1:
            yield (
                "balance.sources: these are shares of the training tokens; with all sources named, "
                f"the sum must be 1, got {float(self.config.total_share):g}"
            )

    def passes(self) -> Sequence[Pass[BalanceCounts]]:
        shards = range(len(Manifest.load(self.recipe.folder("encode")).shards))
        heldout = self.recipe.heldout.fraction
        counting = {
            f"{shard:06d}": CountTokens(shard, heldout, self.recipe.seed) for shard in shards
        }
        return [Pass("count", counting), Pass("main", {"000000": WriteFactors(self.config)})]

    def row(self, counts: BalanceCounts) -> StageRow:
        """Show all documents, and the training tokens before and after balancing."""
        tokens = add_up(counts, ["tokens"])
        out = f"{plural(counts['documents'], 'document')}\n{tokens:,} tokens"

        _, wanted, balanced = mix(counts["tokens"], self.config)
        languages = add_up_by(LANGUAGE, balanced)
        total = languages.total()
        shares = ", ".join(
            f"{language} {100 * count / max(1, total):.0f} %"
            for language, count in languages.most_common(_MOST_NAMED)
        )
        held_out = counts["skipped"]["held_out"]
        notes = (
            f"after balancing: {total:,} tokens in training, of them {shares or 'none'}",
            *(self._explain_limit(wanted, balanced) if wanted != balanced else ()),
            f"{plural(held_out, 'document')} kept for testing, not dropped",
        )

        asked = {name: 100 * share for name, share in self.config.sources.items()}
        amount_in = plural(counts["documents_in"], "document")
        return StageRow(amount_in, out, notes=notes, sources={"asked": asked})

    def _explain_limit(self, wanted: Amounts, balanced: Amounts) -> Iterator[str]:
        """Yield the shares that `max_copies` changes, of sources, or else of languages."""
        part = SOURCE if self.config.sources else LANGUAGE
        asked, got = (add_up_by(part, amounts) for amounts in (wanted, balanced))
        for name, count in asked.most_common():
            yield (
                f"{name}: share {count / asked.total():.1%} asked, {got[name] / got.total():.1%} "
                f"with max_copies={self.config.max_copies}"
            )
