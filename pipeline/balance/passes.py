"""Passes of the stage `balance`: documents and tokens counted shard by shard, then the factors of the whole set."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import numpy as np

from clozeline.pipeline.balance.apportionment import copy_factors
from clozeline.pipeline.balance.counts import BalanceCounts, Kind, LanguageCounts
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output, add_counts, records
from clozeline.pipeline.ingest.documents.copies import FACTORS_FILE, FACTORS_FORMAT, languages_of
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards import Manifest, open_shards
from clozeline.pipeline.shards.splits import is_heldout
from clozeline.recorded_file import check_recorded

BALANCE_VERSION: Final = 1
_KINDS: Final[tuple[Kind, ...]] = ("texts", "pairs")
_LOG = logging.getLogger(__name__)
Factors: TypeAlias = Mapping[str, Mapping[str, Fraction]]
"""Mean copies by language and source."""


@dataclass(frozen=True)
class CountTokens(Pass[BalanceCounts]):
    """One unit a token shard: documents and tokens by language and source, held-out documents left out."""

    units: int
    tokens: Path
    heldout: float
    seed: int
    name: str = "count"

    def run(self, unit: int, output: Output) -> BalanceCounts:
        """Count the documents of a shard."""
        check_recorded(self.tokens, "manifest-000000", "manifest.json")  # it holds the hashes of all other files
        shards = open_shards(self.tokens)
        counts: BalanceCounts = {"documents_in": 0, "skipped": {"held_out": 0}}
        for block in np.flatnonzero(shards.index.shard == unit).tolist():
            add_counts(counts, self._counted(shards.read_block(block), shards.manifest))
        return counts

    def _counted(self, rows: Rows, manifest: Manifest) -> BalanceCounts:
        counts: BalanceCounts = {"documents_in": len(rows)}
        sources, sizes = rows.fixed["source_group"].tolist(), rows.columns["token_ids"].lengths.tolist()
        others = rows.columns["target_ids"].lengths.tolist() if "target_ids" in rows.columns else [0] * len(rows)
        for row, language in enumerate(languages_of(rows, manifest.languages)):
            if is_heldout(rows.fixed["document_uid"][row].tobytes(), self.heldout, self.seed):
                add_counts(counts, {"skipped": {"held_out": 1}})
                continue
            kind = _KINDS[others[row] > 0]
            one: LanguageCounts = {"documents": 1, "tokens": sizes[row] + others[row]}
            source = manifest.source_groups[sources[row]]
            add_counts(counts, cast(BalanceCounts, {kind: {language: {source: one}}}))
        return counts


@dataclass(frozen=True)
class WriteFactors(Pass[BalanceCounts]):
    """One unit, the last: `factors.json`."""

    alpha: float
    max_copies: int
    weights: Mapping[str, float]
    name: str = "main"
    units: int = 1

    def run(self, unit: int, output: Output) -> BalanceCounts:
        """Sum the counts of the shards and write the factors; texts and pairs are balanced apart."""
        counts: BalanceCounts = {}
        for record in records(output.folder, "count"):
            add_counts(counts, record.counts)
        content: dict[str, Any] = {"format": FACTORS_FORMAT, "alpha": self.alpha, "max_copies": self.max_copies}
        factors: dict[str, dict[str, str]] = {}
        balanced: dict[str, int] = {}
        for kind in _KINDS:
            if by_language := counts.get(kind):
                wanted, found = self._factors(by_language)
                content[kind] = _report(by_language, found)
                _warn(content[kind], wanted, found)
                factors |= {name: {source: str(f) for source, f in one.items()} for name, one in found.items()}
                balanced |= {name: row["balanced_tokens"] for name, row in content[kind].items()}
        with output.file(FACTORS_FILE) as path:
            text = json.dumps({**content, "factors": factors}, indent=1, sort_keys=True, ensure_ascii=False)
            path.write_text(text + "\n", encoding="utf-8")
        return {"balanced": balanced}

    def _factors(self, counts: Mapping[str, Mapping[str, LanguageCounts]]) -> tuple[Factors, Factors]:
        """Return the factors that alpha and the weights ask for, and the same within `max_copies`."""
        tokens = {name: {source: one["tokens"] for source, one in found.items()} for name, found in counts.items()}
        wanted, most = copy_factors(tokens, self.alpha, self.weights), Fraction(self.max_copies)
        return wanted, {name: {source: min(f, most) for source, f in one.items()} for name, one in wanted.items()}


def _warn(report: Mapping[str, Mapping[str, Any]], wanted: Factors, factors: Factors) -> None:
    """Name the languages of which more copies were wanted than `max_copies`."""
    for name, row in report.items():
        if wanted[name] != factors[name]:
            _LOG.warning(
                "balance: %s: %.2f copies of a document wanted, max_copies allows %s: %.4f of the tokens, before %.4f",
                name, max(wanted[name].values()), max(factors[name].values()), row["balanced_share"], row["share"],
            )  # fmt: skip


def _report(counts: Mapping[str, Mapping[str, LanguageCounts]], factors: Factors) -> dict[str, dict[str, Any]]:
    """Return documents, tokens, shares and epochs of each language; a share is one of all texts, or of all pairs."""
    tokens = {name: sum(one["tokens"] for one in found.values()) for name, found in counts.items()}
    exact = {
        name: sum((one["tokens"] * factors[name][source] for source, one in found.items()), Fraction(0))
        for name, found in counts.items()
    }
    whole, balanced = sum(tokens.values()), sum(exact.values(), Fraction(0))
    return {
        name: {
            "documents": sum(one["documents"] for one in counts[name].values()),
            "tokens": tokens[name],
            "share": float(round(Fraction(tokens[name], whole), 6)),
            "balanced_tokens": round(exact[name]),
            "balanced_share": float(round(exact[name] / balanced, 6)),
            "epochs": float(round(exact[name] / tokens[name], 6)),
        }
        for name in sorted(counts)
    }
