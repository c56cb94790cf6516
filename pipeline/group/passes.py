"""Passes of the stage `group`: one unit per shard, then the manifests."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from clozeline.arrays import Int64
from clozeline.errors import ConfigurationError
from clozeline.pipeline.block_options import BlockRows, Compression
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Counts, Output, add_counts, require_written, total_counts
from clozeline.pipeline.group.documents import heldout_documents, train_documents, with_copies
from clozeline.pipeline.group.groupings import Context, GroupingSpec, MinimumRow, build_grouping
from clozeline.pipeline.ingest.documents.copies import FACTORS_FILE, CopyFactors
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards import Manifest, SetWriter
from clozeline.pipeline.shards.layout import Splits
from clozeline.pipeline.shards.token_set import WORD_STARTS
from clozeline.pipeline.tokenize.tokenizers import vocabulary_of
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.recorded_file import check_files, find_file
from clozeline.seeding import mix


class _RowCounts(TypedDict, total=False):
    """Tokens that were grouped, and the rows they came to. A grouping may count more."""

    tokens_in: int
    tokens_in_samples: int
    tokens_dropped: dict[str, int]
    """tokens in no row, by reason"""
    separators: int
    """separators between documents of a row"""
    target_tokens: int
    """tokens of the other sides of pairs, among those in samples"""
    samples: int
    tokens: int
    """the same as `tokens_in_samples`"""


class SetCounts(_RowCounts, total=False):
    """Counts of one split of a sample set."""

    by_language: dict[str, int]
    """tokens and separators by the language of the row's first document"""


class ReadCounts(TypedDict):
    """Token documents of one split, counted where they are read, before they are grouped."""

    documents: int
    tokens: int
    target_tokens: int


class CopyCounts(ReadCounts):
    """Copies of the documents for training; only where a recipe balances."""

    left_out: int
    """documents of which there is no copy"""


class GroupCounts(_RowCounts, Counts, total=False):
    """Counts of units of `group`: sums over all sets, and each set by label and split."""

    documents: dict[str, int]
    """documents by split"""
    read: dict[str, ReadCounts]
    """the same with their tokens, before they are copied"""
    copies: CopyCounts
    sets: dict[str, dict[str, SetCounts]]


@dataclass(frozen=True, slots=True)
class SampleSet:
    """One sample set: how it is grouped, and the smallest row that an objective can use."""

    spec: GroupingSpec
    minimum: MinimumRow

    @property
    def label(self) -> str:
        """Name of its folder."""
        return self.spec.label


def sample_sets(entries: Sequence[Any], vocabulary: Vocabulary) -> tuple[SampleSet, ...]:
    """Return the sample sets that a recipe's objectives read, in order of their label.

    Raises:
        ConfigurationError: two groupings have one label.
    """
    minima: dict[GroupingSpec, list[MinimumRow]] = {}
    for entry in entries:
        objective = entry.build(vocabulary)
        minima.setdefault(objective.grouping, []).append(objective.minimum)
    sets = [
        SampleSet(spec, MinimumRow(min(row.tokens for row in rows), min(row.sentences for row in rows)))
        for spec, rows in minima.items()
    ]
    labels = sorted(made.label for made in sets)
    if len(set(labels)) < len(labels):
        raise ConfigurationError(f"group: two groupings share a label: {labels}")
    return tuple(sorted(sets, key=lambda made: made.label))


@dataclass(frozen=True)
class GroupShards(Pass[GroupCounts]):
    """Group the token documents of one shard into one shard of every sample set."""

    units: int
    tokens: Path
    sets: tuple[SampleSet, ...]
    splits: Splits
    block_rows: BlockRows
    compression: Compression
    seed: int
    balance: Path | None = None
    """folder of the stage that wrote the factors of copies; none: each document is there once"""
    name: str = "main"

    def run(self, unit: int, output: Output) -> GroupCounts:
        check_files(self.tokens, "manifest-000000", "manifest.json")  # it holds the hashes of all other files
        split, shard, shards = self.splits.of_unit(unit)
        fraction = self.splits.fraction
        if split == "train":
            documents = train_documents(self.tokens, shard, fraction, self.seed)
        else:
            documents = heldout_documents(self.tokens, shard, shards, fraction, self.seed)
        manifest = Manifest.load(self.tokens)
        vocabulary = vocabulary_of(self.tokens / "manifest.json", manifest.tokenizer.fingerprint)
        counts: GroupCounts = {"documents": {split: len(documents)}, "read": {split: _read_counts(documents)}}
        if split == "train" and self.balance is not None:
            factors = CopyFactors.read(find_file(self.balance, "000000", FACTORS_FILE), self.seed)
            copies = factors.of_rows(documents, manifest.languages, manifest.source_groups)
            counts["copies"] = {**_read_counts(documents, copies), "left_out": int((copies == 0).sum())}
            documents = with_copies(documents, copies, self.seed)
        for sample_set in self.sets:
            grouping = build_grouping(sample_set.spec, vocabulary)
            context = Context(sample_set.label, self.seed, manifest.source_groups)
            grouped = grouping.group(documents, sample_set.minimum, context)
            writer = self.writer(sample_set, split, shards, vocabulary)
            rows, lengths = grouped.rows, grouped.rows.columns["ids"].lengths
            info = writer.write_shard(output, shard, _by_uid(rows, writer.block_rows))
            set_counts = {**grouped.counts, "samples": len(rows), "tokens": grouped.counts["tokens_in_samples"]}
            in_language = np.bincount(rows.fixed["language"], lengths)
            by_language = {manifest.languages[code]: int(in_language[code]) for code in np.flatnonzero(in_language)}
            counted = len(rows), sum(by_language.values())
            require_written(f"group {writer.path}: shard {shard}", counted, (info.rows, info.tokens))
            add_counts(
                counts, {**set_counts, "sets": {sample_set.label: {split: {**set_counts, "by_language": by_language}}}}
            )
        return counts

    def writer(self, sample_set: SampleSet, split: str, shards: int, vocabulary: Vocabulary) -> SetWriter:
        """Return the writer of one split of a sample set."""
        has_words = WORD_STARTS.name in Manifest.load(self.tokens).roles
        features = build_grouping(sample_set.spec, vocabulary).columns_of(words=has_words)
        length = sample_set.spec.length
        return SetWriter.of_rows(
            f"{sample_set.label}/{split}", shards, features, vocabulary, length, self.block_rows,
            {"grouping": sample_set.label}, compression=self.compression,
        )  # fmt: skip


def _read_counts(documents: Rows, copies: Int64 | int = 1) -> ReadCounts:
    """Count so many copies of each document, and the tokens of both sides of pairs."""
    columns = [documents.columns.get(name) for name in ("token_ids", "target_ids")]
    tokens, targets = (0 if column is None else int((copies * column.lengths).sum()) for column in columns)
    number = int(np.broadcast_to(copies, len(documents)).sum())
    return {"documents": number, "tokens": tokens, "target_tokens": targets}


def _by_uid(rows: Rows, portion: int) -> Iterator[Rows]:
    order = np.argsort(mix(rows.fixed["uid"]), kind="stable")
    for start in range(0, len(order), portion):
        yield rows.take(order[start : start + portion])


@dataclass(frozen=True)
class GroupManifests(Pass[GroupCounts]):
    """Write the manifests of all sample sets, after their shards."""

    shards: GroupShards
    name: str = "manifest"
    units: int = 1

    def run(self, unit: int, output: Output) -> GroupCounts:
        """Write the manifests; ConfigurationError if a set would be empty."""
        counts: GroupCounts = total_counts(output.folder, self.shards.name)
        for sample_set in self.shards.sets:
            for split, shards in self.shards.splits.items():
                set_counts = counts["sets"][sample_set.label][split]
                documents = counts["documents"].get(split, 0)
                if split == "heldout" and not set_counts["samples"] and not documents:
                    raise ConfigurationError(
                        f"group: heldout.fraction {self.shards.splits.fraction} selected no document; raise it, add "
                        "input, or set heldout.fraction=0 and train without a held-out set"
                    )
                if not set_counts["samples"]:
                    raise ConfigurationError(
                        f"group: the {split} set of {sample_set.label} is empty: {documents} documents, "
                        f"{set_counts['tokens_in']} tokens, dropped {set_counts['tokens_dropped'] or 'none'}; add "
                        "input, or lower max_length of the objectives that read it"
                    )
                self._write(sample_set, split, shards, set_counts, output)
        return {}

    def _write(self, sample_set: SampleSet, split: str, shards: int, set_counts: SetCounts, output: Output) -> None:
        work = self.shards
        tokens = Manifest.load(work.tokens)
        vocabulary = vocabulary_of(work.tokens / "manifest.json", tokens.tokenizer.fingerprint)
        entry = sample_set.spec.entry()
        parents = [{"name": tokens.name, "digest": tokens.digest, "role": "tokens"}]
        if work.balance is not None:
            digest = find_file(work.balance, "000000", FACTORS_FILE).xxh3_128
            parents.append({"name": work.balance.name, "digest": digest, "role": "factors"})
        manifest = work.writer(sample_set, split, shards, vocabulary).write_manifest(
            output, name=f"{sample_set.label}/{split}", kind="samples", seed=work.seed,
            tokenizer=tokens.tokenizer.model_dump(),
            totals={"tokens_by_language": set_counts["by_language"], "skipped": set_counts["tokens_dropped"]},
            grouping={"name": entry.pop("name"), "options": entry}, languages=tokens.languages,
            parents=parents,
            config={"heldout_fraction": work.splits.fraction, "least_tokens": sample_set.minimum.tokens,
                    "least_sentences": sample_set.minimum.sentences},
        )  # fmt: skip
        counted = set_counts["samples"], sum(set_counts["by_language"].values())
        written = manifest.totals.samples, manifest.totals.tokens
        require_written(f"group {manifest.name}: manifest", counted, written)
