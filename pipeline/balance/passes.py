"""Passes of the stage `balance`: count documents and tokens shard by shard, then compute the factors."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias, cast

import numpy as np

from clozeline.errors import ConfigurationError
from clozeline.pipeline.balance.apportionment import copy_factors
from clozeline.pipeline.balance.config import ScoreBuckets
from clozeline.pipeline.balance.counts import BalanceCounts, Kind, LanguageCounts
from clozeline.pipeline.balance.pass_rates import factors_of_rates
from clozeline.pipeline.balance.selection import Selection
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import TEMPORARY, Output, add_counts, records, total_counts
from clozeline.pipeline.ingest.documents.copies import (
    FACTORS_FILE,
    FACTORS_FORMAT,
    UNSELECTED_FILE,
    FurtherFactors,
    Unselected,
    languages_of,
)
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.splits import is_heldout
from clozeline.recorded_file import check_files, find_file

BALANCE_VERSION: Final = 1
_KINDS: Final[tuple[Kind, ...]] = ("texts", "pairs")
_LOG = logging.getLogger(__name__)
Factors: TypeAlias = Mapping[str, Mapping[str, Fraction]]
"""Mean copies per document, by language and source."""


@dataclass(frozen=True)
class SelectDocuments(Pass[BalanceCounts]):
    """One unit per part of the documents: write the uids of those that an expression leaves out, sorted."""

    units: int
    documents: Path
    """folder of the stage that wrote the documents"""
    select: str
    name: str = "select"
    intermediate: ClassVar[bool] = True

    def run(self, unit: int, output: Output) -> BalanceCounts:
        left_out, count = [], 0
        for uid, is_selected in Selection(self.select).select(self.documents, unit):
            count += 1
            if not is_selected:
                left_out.append(uid)
        with output.file(f"{TEMPORARY}/unselected/{unit:06d}.bin") as path:
            path.write_bytes(b"".join(sorted(left_out)))
        return {"selection": {"selected": count - len(left_out), "not_selected": len(left_out)}}


@dataclass(frozen=True)
class MergeUnselected(Pass[BalanceCounts]):
    """A single unit: write the uids of all parts, sorted."""

    parts: int
    select: str
    units: int = 1
    name: str = "merge"

    def run(self, unit: int, output: Output) -> BalanceCounts:
        if not total_counts(output.folder, "select")["selection"]["selected"]:
            raise ConfigurationError(f"balance.select: no document fulfills {self.select!r}; loosen it")
        files = [
            find_file(output.folder, f"select-{part:06d}", f"{TEMPORARY}/unselected/{part:06d}.bin")
            for part in range(self.parts)
        ]
        # a uid is two big-endian integers, shape [documents, 2]
        uids = np.frombuffer(b"".join(file.buffer().to_pybytes() for file in files), dtype=">u8").reshape(-1, 2)
        with output.file(UNSELECTED_FILE) as path:
            path.write_bytes(uids[np.lexsort((uids[:, 1], uids[:, 0]))].tobytes())
        return {}


@dataclass(frozen=True)
class CountTokens(Pass[BalanceCounts]):
    """One unit per token shard: count training documents and tokens by language and source."""

    units: int
    tokens: Path
    heldout: float
    seed: int
    duplicates: Mapping[int, float]
    select: bool = False
    buckets: ScoreBuckets | None = None
    name: str = "count"

    def run(self, unit: int, output: Output) -> BalanceCounts:
        check_files(self.tokens, "manifest-000000", "manifest.json")  # it holds the hashes of all other files
        shards = open_shards(self.tokens)
        counts: BalanceCounts = {"documents_in": 0, "skipped": {"held_out": 0}}
        manifest = shards.manifest
        classes = FurtherFactors.read(output.folder, _further_facts(self.duplicates, self.buckets, 0))
        unselected = Unselected(find_file(output.folder, "merge-000000", UNSELECTED_FILE)) if self.select else None
        if unselected is not None:
            counts["skipped"]["not_selected"] = 0
        for block in np.flatnonzero(shards.index.shard == unit).tolist():
            rows = shards.read_block(block)
            counts["documents_in"] += len(rows)
            sources, sizes = rows.fixed["source_group"].tolist(), rows.columns["token_ids"].lengths.tolist()
            others = rows.columns["target_ids"].lengths.tolist() if "target_ids" in rows.columns else [0] * len(rows)
            for row, language in enumerate(languages_of(rows, manifest.languages)):
                if is_heldout(rows.fixed["document_uid"][row].tobytes(), self.heldout, self.seed):
                    counts["skipped"]["held_out"] += 1
                    continue
                if unselected is not None and unselected.holds(rows.fixed["document_uid"][row].tobytes()):
                    counts["skipped"]["not_selected"] += 1
                    continue
                document: LanguageCounts = {"documents": 1, "tokens": sizes[row] + others[row]}
                if classes is not None:
                    name = classes.class_of(rows.fixed["document_uid"][row].tobytes())
                    document["by_size"] = {name: document["tokens"]}
                by_source = {manifest.source_groups[sources[row]]: document}
                add_counts(counts, cast(BalanceCounts, {_KINDS[others[row] > 0]: {language: by_source}}))
        return counts


@dataclass(frozen=True)
class WriteFactors(Pass[BalanceCounts]):
    """A single unit: write `factors.json`."""

    alpha: float
    max_copies: int
    weights: Mapping[str, float]
    duplicates: Mapping[int, float]
    rehydrate: float | None = None
    """highest factor of a class of cluster sizes, if the factors follow from the share that passes"""
    buckets: ScoreBuckets | None = None
    name: str = "main"
    units: int = 1

    def run(self, unit: int, output: Output) -> BalanceCounts:
        """Sum the counts of the shards and write the factors; texts and pairs are balanced separately."""
        counts: BalanceCounts = {}
        for record in records(output.folder, "count"):
            add_counts(counts, record.counts)
        content: dict[str, Any] = {"format": 1, "alpha": self.alpha, "max_copies": self.max_copies}
        duplicates = self.duplicates
        if self.rehydrate is not None:
            duplicates = factors_of_rates(total_counts(output.folder, "rate")["rates"], self.rehydrate)
        content |= _further_facts(duplicates, self.buckets, self.max_copies)
        classes = FurtherFactors.read(output.folder, content)
        factors: dict[str, dict[str, str]] = {}
        balanced: dict[str, int] = {}
        for kind in _KINDS:
            if not (by_language := counts.get(kind)):
                continue
            # tokens, uncapped and capped factors, by language and source
            tokens = {
                language: {source: documents["tokens"] for source, documents in by_source.items()}
                for language, by_source in by_language.items()
            }
            most = Fraction(self.max_copies)
            uncapped = copy_factors(tokens, self.alpha, self.weights)
            capped = {
                language: {source: min(factor, most) for source, factor in by_source.items()}
                for language, by_source in uncapped.items()
            }
            content[kind] = report = _report(by_language, tokens, capped, classes)
            for language, row in report.items():
                if uncapped[language] != capped[language]:
                    _LOG.warning(
                        "balance: %s: %.2f copies of a document wanted, max_copies allows %s: %.4f of the tokens, "
                        "before %.4f", language, max(uncapped[language].values()), max(capped[language].values()),
                        row["balanced_share"], row["share"],
                    )  # fmt: skip
                factors[language] = {source: str(factor) for source, factor in capped[language].items()}
                balanced[language] = row["balanced_tokens"]
        with output.file(FACTORS_FILE) as path:
            text = json.dumps({**content, "factors": factors}, indent=1, sort_keys=True, ensure_ascii=False)
            path.write_text(text + "\n", encoding="utf-8")
        return {"balanced": balanced}


def _report(
    counts: Mapping[str, Mapping[str, LanguageCounts]],
    tokens: Mapping[str, Mapping[str, int]],
    factors: Factors,
    classes: FurtherFactors | None,
) -> dict[str, dict[str, Any]]:
    """Return documents, tokens, shares and epochs of each language; shares are of all texts, or of all pairs."""
    before = {language: sum(by_source.values()) for language, by_source in tokens.items()}
    after = {
        language: sum(
            (_copied_tokens(each, factors[language][source], classes) for source, each in by_source.items()),
            Fraction(0),
        )
        for language, by_source in counts.items()
    }
    total_before, total_after = sum(before.values()), sum(after.values(), Fraction(0))
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


def _copied_tokens(counts: LanguageCounts, factor: Fraction, classes: FurtherFactors | None) -> Fraction:
    """Return the expected tokens of the copies of documents of a language and source."""
    if classes is None:
        return counts["tokens"] * factor
    by_size = counts["by_size"].items()
    return sum((tokens * classes.of_class(factor, name) for name, tokens in by_size), Fraction(0))


def _further_facts(duplicates: Mapping[int, float], buckets: ScoreBuckets | None, max_copies: int) -> dict[str, Any]:
    """Return what `factors.json` says of clusters of duplicates and of buckets: nothing if they have no factors."""
    facts: dict[str, Any] = {}
    if duplicates:
        by_size = {str(size): str(Fraction(repr(float(factor)))) for size, factor in sorted(duplicates.items())}
        facts = {"format": 2, "duplicates": by_size, "max_copies": max_copies}
    if buckets is not None:
        weights = [str(Fraction(repr(float(weight)))) for weight in buckets.weights]
        table = {"score": buckets.columns, "edges": buckets.edges, "weights": weights}
        facts |= {"format": FACTORS_FORMAT, "buckets": table, "max_copies": max_copies}
    return facts
