"""Repeat documents in training, so that small languages and chosen sources get larger shares."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypedDict, cast

from clozeline.errors import plural
from clozeline.extensions.curation.balance.config import BalanceConfig
from clozeline.extensions.curation.balance.copies import (
    FACTORS,
    FACTORS_FORMAT,
    BalancedCopies,
    Factors,
    iterate_languages,
)
from clozeline.pipeline.execution.contributions import ParentFile
from clozeline.pipeline.execution.equations import EACH, Equation, StageRow
from clozeline.pipeline.execution.stages import Pass, Stage, Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import Counts, Output, add_counts
from clozeline.pipeline.kernels.rates import largest_remainders, powers
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.shards.layout import is_heldout

TextType: TypeAlias = Literal["texts", "pairs"]
BALANCE_VERSION: Final = 1
_TEXT_TYPES: Final[tuple[TextType, ...]] = ("texts", "pairs")
_LOG = logging.getLogger(__name__)


class LanguageCounts(TypedDict):
    """Training documents and their tokens; for pairs, tokens of both sides."""

    documents: int
    tokens: int


class BalanceCounts(Counts, total=False):
    """Counts of a unit of `balance`; the language of a pair names both sides, such as `en-sw`."""

    skipped: dict[str, int]  # documents without copies, by reason
    texts: dict[str, dict[str, LanguageCounts]]  # by language and source
    pairs: dict[str, dict[str, LanguageCounts]]  # the same for pairs of aligned texts
    balanced: dict[str, int]  # expected tokens of the copies, by language


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
            sources = rows.fixed["source_group"].tolist()
            sizes = rows.columns["token_ids"].lengths.tolist()
            others = (
                rows.columns["target_ids"].lengths.tolist()
                if "target_ids" in rows.columns
                else [0] * len(rows)
            )

            for row, language in enumerate(iterate_languages(rows, tokens.languages)):
                if is_heldout(rows.fixed["document_uid"][row].tobytes(), self.heldout, self.seed):
                    counts["skipped"]["held_out"] += 1
                    continue
                document: LanguageCounts = {"documents": 1, "tokens": sizes[row] + others[row]}
                by_source = {tokens.source_groups[sources[row]]: document}
                add_counts(
                    counts,
                    cast(BalanceCounts, {_TEXT_TYPES[others[row] > 0]: {language: by_source}}),
                )

        return counts


@dataclass(frozen=True)
class WriteFactors(Unit[BalanceCounts]):
    """Write `factors.json`."""

    VERSION = BALANCE_VERSION
    alpha: float
    max_copies: int
    weights: Mapping[str, float]

    def run(self, inputs: UnitInputs, output: Output) -> BalanceCounts:
        """Sum the counts of the shards and write the factors, separately for texts and pairs."""
        counts: BalanceCounts = inputs.sum_counts("balance", "count")
        content: dict[str, Any] = {
            "format": FACTORS_FORMAT,
            "alpha": self.alpha,
            "max_copies": self.max_copies,
        }

        factors: dict[str, dict[str, str]] = {}
        balanced: dict[str, int] = {}

        for text_type in _TEXT_TYPES:
            if not (by_language := counts.get(text_type)):
                continue

            # tokens, uncapped and capped factors, by language and source
            tokens = {
                language: {source: documents["tokens"] for source, documents in by_source.items()}
                for language, by_source in by_language.items()
            }
            most = Fraction(self.max_copies)
            uncapped = compute_copy_factors(tokens, self.alpha, self.weights)
            capped = {
                language: {source: min(factor, most) for source, factor in by_source.items()}
                for language, by_source in uncapped.items()
            }
            content[text_type] = report = _summarize_languages(by_language, tokens, capped)

            for language, row in report.items():
                if uncapped[language] != capped[language]:
                    _LOG.warning(
                        "balance: %s: %.2f copies per document are needed, max_copies allows %s: "
                        "its share becomes %.4f of the tokens, before %.4f",
                        language,
                        max(uncapped[language].values()),
                        max(capped[language].values()),
                        row["balanced_share"],
                        row["share"],
                    )

                factors[language] = {
                    source: str(factor) for source, factor in capped[language].items()
                }
                balanced[language] = row["balanced_tokens"]

        with output.file(FACTORS.name) as path:
            text = json.dumps(
                {**content, "factors": factors}, indent=1, sort_keys=True, ensure_ascii=False
            )
            path.write_text(text + "\n", encoding="utf-8")

        return {"balanced": balanced}


def _summarize_languages(
    counts: Mapping[str, Mapping[str, LanguageCounts]],
    tokens: Mapping[str, Mapping[str, int]],
    factors: Factors,
) -> dict[str, dict[str, Any]]:
    """Return documents, tokens, shares and epochs of each language.

    Shares are of all texts, or of all pairs.
    """
    before = {language: sum(by_source.values()) for language, by_source in tokens.items()}
    after = {
        language: sum(
            (count * factors[language][source] for source, count in by_source.items()), Fraction(0)
        )
        for language, by_source in tokens.items()
    }

    total_before = sum(before.values())
    total_after = sum(after.values(), Fraction(0))
    return {
        language: {
            "documents": sum(documents["documents"] for documents in counts[language].values()),
            "tokens": before[language],
            "share": float(round(Fraction(before[language], total_before), 6)),
            "balanced_tokens": round(after[language]),
            "balanced_share": float(round(after[language] / total_after, 6)),
            "epochs": float(round(after[language] / before[language], 6)),
        }
        for language in sorted(counts)
    }


def apportion(tokens: Mapping[str, int], alpha: float) -> dict[str, int]:
    """Return the training tokens of each language, proportional to tokens ** alpha.

    The total is unchanged. Powers are decimals and shares are rounded by largest remainders, so
    that every machine computes the same numbers.

    Example: `apportion({"en": 900, "sw": 100}, 0.5)` is {"en": 750, "sw": 250}: the square roots
    are as 3 to 1.
    """
    names = sorted(tokens)
    weights = powers([tokens[name] for name in names], Decimal(repr(alpha)))
    return dict(zip(names, largest_remainders(weights, sum(tokens.values())), strict=True))


def compute_copy_factors(
    tokens: Mapping[str, Mapping[str, int]], alpha: float, weights: Mapping[str, float]
) -> dict[str, dict[str, Fraction]]:
    """Return the mean copies per document, by language and source.

    They give each language its share by `apportion`.

    `weights` are extra factors of sources, default 1.

    Example: 900 tokens in en and 100 in sw at alpha 0.5 give 5/6 and 5/2.
    """
    totals = {language: sum(by_source.values()) for language, by_source in tokens.items()}
    return {
        language: {
            source: Fraction(target, totals[language])
            * Fraction(repr(float(weights.get(source, 1))))
            for source in sorted(tokens[language])
        }
        for language, target in apportion(totals, alpha).items()
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
    equations = (
        Equation(
            ["documents_in"],
            [("texts", EACH, EACH, "documents"), ("pairs", EACH, EACH, "documents"), "skipped"],
        ),
    )

    @property
    def document_copies(self) -> BalancedCopies:
        return BalancedCopies(self.recipe.seed)

    def validate(self) -> Iterator[str]:
        """Yield sources with a factor that no input has."""
        if any(entry.keeps_documents for entry in self.recipe.input):
            return  # with labels of another run
        known = {entry.source for entry in self.recipe.input}
        for source in sorted(self.config.sources.keys() - known if known else ()):
            yield (
                f"balance.sources: no input has the source '{source}'; the inputs have "
                f"{', '.join(sorted(known))}"
            )

    def passes(self) -> Sequence[Pass[BalanceCounts]]:
        shards = range(len(Manifest.load(self.recipe.folder("encode")).shards))
        config = self.config
        heldout = self.recipe.heldout.fraction
        counting = {
            f"{shard:06d}": CountTokens(shard, heldout, self.recipe.seed) for shard in shards
        }
        factors = WriteFactors(config.alpha, config.max_copies, config.sources)
        return [Pass("count", counting), Pass("main", {"000000": factors})]

    def row(self, counts: BalanceCounts) -> StageRow:
        """Show all documents, and the training tokens before and after balancing."""
        documents, tokens = (
            sum(source[key] for source in _list_sources(counts)) for key in ("documents", "tokens")
        )
        balanced = counts["balanced"]
        total = sum(balanced.values())
        out = f"{plural(documents, 'document')}\n{tokens:,} tokens"

        largest = sorted(balanced.items(), key=lambda item: (-item[1], item[0]))[:_MOST_NAMED]
        shares = ", ".join(
            f"{language} {100 * count / max(1, total):.0f} %" for language, count in largest
        )
        held_out = counts["skipped"]["held_out"]
        notes = (
            f"after balancing: {total:,} tokens in training, of them {shares or 'none'}",
            f"{plural(held_out, 'document')} kept for testing, which "
            f"{'is' if held_out == 1 else 'are'} not dropped",
        )

        return StageRow(plural(counts["documents_in"], "document"), out, notes=notes)


def _list_sources(counts: BalanceCounts) -> list[LanguageCounts]:
    by_languages = (counts.get("texts", {}), counts.get("pairs", {}))
    by_sources = [by_source for languages in by_languages for by_source in languages.values()]
    return [source for by_source in by_sources for source in by_source.values()]
