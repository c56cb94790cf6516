"""The stage `group`: cut token documents into samples, for training and held-out sets."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, TypedDict, cast

import numpy as np

from clozeline.arrays import Int64
from clozeline.errors import ConfigurationError, TokenizerMissingError, plural
from clozeline.pipeline.block_options import BlockRows, Compression
from clozeline.pipeline.execution.equations import EACH, Equation, StageRow
from clozeline.pipeline.execution.stages import (
    Consumed,
    Pass,
    Stage,
    Unit,
    tokenizer_stage,
)
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import (
    Counts,
    Output,
    add_counts,
    require_equal,
    require_written,
)
from clozeline.pipeline.group.config import GroupConfig
from clozeline.pipeline.group.documents import (
    copy_documents,
    heldout_documents,
    token_shards,
    train_documents,
)
from clozeline.pipeline.group.groupings import Context, GroupingSpec, MinimumRow, build_grouping
from clozeline.pipeline.ingest.documents.copies import FACTORS_FILE, CopyFactors
from clozeline.pipeline.rows import WORD_STARTS, RowBatch
from clozeline.pipeline.shards import Manifest, SetWriter
from clozeline.pipeline.shards.layout import Splits, split_amount
from clozeline.pipeline.tokenize.stage_files import open_token_shards, open_tokenizer
from clozeline.pipeline.tokenize.tokenizers import find_vocabulary
from clozeline.pipeline.tokenize.tokenizers._tokenizer import VOCABULARY_FILE
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.recorded_file import RecordedFile
from clozeline.seeding import mix


class _RowCounts(TypedDict, total=False):
    """Tokens that were grouped, and the rows made of them; a grouping may add further counts."""

    tokens_in: int
    tokens_in_samples: int
    tokens_dropped: dict[str, int]
    """tokens that are in no row, by reason"""
    separators: int
    """separators between documents of a row"""
    target_tokens: int
    """tokens in samples from the other sides of pairs"""
    samples: int
    tokens: int
    """the same as `tokens_in_samples`"""


class TokenReadCounts(TypedDict):
    """Documents and tokens of one split, counted while documents are read, before grouping."""

    documents: int
    tokens: int
    target_tokens: int


class CopyCounts(TokenReadCounts):
    """Copies of the training documents; only if the recipe has the stage `balance`."""

    left_out: int
    """documents without a copy"""


class SampleSetCounts(_RowCounts, total=False):
    """Counts of one split of a sample set."""

    by_language: dict[str, int]
    """tokens and separators by the language of the row's first document"""
    read: TokenReadCounts
    """documents and their tokens, before they are copied"""
    copies: CopyCounts


class GroupCounts(_RowCounts, Counts, total=False):
    """Counts of `group`: sums over all sets, and the counts of each set by label and split."""

    sets: dict[str, dict[str, SampleSetCounts]]


@dataclass(frozen=True, slots=True)
class SampleSet:
    """One sample set: the grouping, and the smallest row that an objective can use."""

    spec: GroupingSpec
    minimum: MinimumRow

    @property
    def label(self) -> str:
        """Return the name of its folder."""
        return self.spec.label


def sample_sets(entries: Sequence[Any], vocabulary: Vocabulary) -> tuple[SampleSet, ...]:
    """Return the sample sets that the objectives of a recipe read, in order of their labels.

    Raises:
        ConfigurationError: two groupings have the same label.
    """
    # a set keeps every row that one of its objectives can use
    minima: dict[GroupingSpec, list[MinimumRow]] = {}
    for entry in entries:
        objective = entry.build(vocabulary)
        minima.setdefault(objective.grouping, []).append(objective.minimum)

    sets = [
        SampleSet(
            spec, MinimumRow(min(row.tokens for row in rows), min(row.sentences for row in rows))
        )
        for spec, rows in minima.items()
    ]

    labels = sorted(made.label for made in sets)
    if len(set(labels)) < len(labels):
        raise ConfigurationError(f"group: two groupings have the same label: {', '.join(labels)}")
    return tuple(sorted(sets, key=lambda made: made.label))


@dataclass(frozen=True)
class GroupShard(Unit[GroupCounts]):
    """Group the token documents of one shard into one shard of a sample set."""

    sample_set: SampleSet
    split: str
    shard: int
    shards: int
    token_shards: int
    """number of token shards"""
    fraction: float
    """fraction of held-out documents"""
    block_rows: BlockRows
    compression: Compression
    seed: int
    is_balanced: bool
    """whether `balance` wrote the number of copies; otherwise, each document has one"""

    @property
    def name(self) -> str:
        return f"{self.sample_set.label}.{self.split}.{self.shard:05d}"

    def run(self, inputs: UnitInputs, output: Output) -> GroupCounts:
        # the documents of the unit
        sample_set = self.sample_set
        if self.split == "train":
            tokens = open_token_shards(inputs, [self.shard])
            documents = train_documents(tokens, self.fraction, self.seed)
        else:
            held = token_shards(self.shard, self.shards, self.token_shards)
            tokens = open_token_shards(inputs, held)
            documents = heldout_documents(tokens, self.shard, self.shards, self.fraction, self.seed)

        vocabulary = Vocabulary.load(open_tokenizer(inputs) / VOCABULARY_FILE)
        set_counts: SampleSetCounts = {"read": _read_counts(documents)}

        if self.split == "train" and self.is_balanced:
            factors = CopyFactors.read(open_factors(inputs), self.seed)
            copies = factors.count_copies(documents, tokens.languages, tokens.source_groups)
            set_counts["copies"] = {
                **_read_counts(documents, copies),
                "left_out": int((copies == 0).sum()),
            }
            documents = copy_documents(documents, copies, self.seed)

        # the shard of the sample set
        grouping = build_grouping(sample_set.spec, vocabulary)
        context = Context(sample_set.label, self.seed, tokens.source_groups)
        grouped = grouping.group(documents, sample_set.minimum, context)
        writer = self.writer(vocabulary, tokens.columns)
        rows = grouped.rows
        lengths = grouped.rows.columns["ids"].lengths
        info = writer.write_shard(output, self.shard, _iter_shuffled(rows, writer.block_rows))

        # count its samples and tokens
        row_counts = {
            **grouped.counts,
            "samples": len(rows),
            "tokens": grouped.counts["tokens_in_samples"],
        }

        in_language = np.bincount(rows.fixed["language"], lengths)
        by_language = {
            tokens.languages[code]: int(in_language[code]) for code in np.flatnonzero(in_language)
        }
        counted = len(rows), sum(by_language.values())
        where = f"group {writer.path}: shard {self.shard}"
        require_written(where, counted, (info.rows, info.tokens))
        of_set = {**set_counts, **row_counts, "by_language": by_language}
        counts = {**row_counts, "sets": {sample_set.label: {self.split: of_set}}}
        return cast(GroupCounts, counts)

    def writer(self, vocabulary: Vocabulary, columns: Collection[str]) -> SetWriter:
        """Return the writer of the set; `columns` are those of the token set."""
        spec = self.sample_set.spec
        grouping = build_grouping(spec, vocabulary)
        features = grouping.columns_of(words=WORD_STARTS.name in columns)
        return SetWriter.of_rows(
            f"{self.sample_set.label}/{self.split}",
            self.shards,
            features,
            vocabulary,
            spec.length,
            self.block_rows,
            {"grouping": self.sample_set.label},
            compression=self.compression,
        )


def open_factors(inputs: UnitInputs) -> RecordedFile:
    """Return the factors that `balance` wrote."""
    return inputs.file("balance", "main", "000000", FACTORS_FILE)


def _read_counts(documents: RowBatch, copies: Int64 | int = 1) -> TokenReadCounts:
    """Count `copies[i]` copies of document i, and the tokens of both sides of pairs."""
    columns = [documents.columns.get(name) for name in ("token_ids", "target_ids")]
    tokens, targets = (
        0 if column is None else int((copies * column.lengths).sum()) for column in columns
    )
    number = int(np.broadcast_to(copies, len(documents)).sum())
    return {"documents": number, "tokens": tokens, "target_tokens": targets}


def _iter_shuffled(rows: RowBatch, portion: int) -> Iterator[RowBatch]:
    """Yield the rows in portions, in the order of a hash of their uids."""
    order = np.argsort(mix(rows.fixed["uid"]), kind="stable")
    for start in range(0, len(order), portion):
        yield rows.take(order[start : start + portion])


@dataclass(frozen=True)
class GroupManifest(Unit[GroupCounts]):
    """Write the manifest of one split of a sample set, after its shards."""

    first: GroupShard
    """its first shard"""

    @property
    def name(self) -> str:
        return f"{self.first.sample_set.label}.{self.first.split}"

    def run(self, inputs: UnitInputs, output: Output) -> GroupCounts:
        """Write the manifest; raise ConfigurationError if the set is empty."""
        first = self.first
        split = first.split
        sample_set = first.sample_set
        counts = inputs.sum_counts("group", "main", f"{self.name}.")
        set_counts = counts["sets"][sample_set.label][split]
        documents = set_counts["read"]["documents"]

        if split == "heldout" and not set_counts["samples"] and not documents:
            train = inputs.sum_counts("group", "main", f"{sample_set.label}.train.")
            total = train["sets"][sample_set.label]["train"]["read"]["documents"]
            raise ConfigurationError(
                f"group: heldout.fraction {first.fraction} selected none of the {total} documents; "
                "raise it, add input, "
                "or set heldout.fraction=0 and train without a held-out set"
            )

        if not set_counts["samples"]:
            raise ConfigurationError(
                f"group: the {split} set of {sample_set.label} is empty: {documents} "
                f"documents, {set_counts['tokens_in']} tokens, dropped "
                f"{set_counts['tokens_dropped'] or 'none'}; add input, or lower max_length "
                "of the objectives that read this set"
            )

        self._write(set_counts, inputs, output)
        return {}

    def _write(self, set_counts: SampleSetCounts, inputs: UnitInputs, output: Output) -> None:
        first = self.first
        sample_set = first.sample_set
        tokens = open_token_shards(inputs)
        vocabulary = Vocabulary.load(open_tokenizer(inputs) / VOCABULARY_FILE)
        entry = sample_set.spec.entry()

        parents = [tokens.as_parent("tokens")]
        if first.is_balanced:
            digest = open_factors(inputs).xxh3_128
            parents.append({"name": "balance", "digest": digest, "role": "factors"})

        def read(shard: int, name: str) -> str:
            return inputs.file("group", "main", replace(first, shard=shard).name, name).text()

        manifest = first.writer(vocabulary, tokens.columns).write_manifest(
            output,
            read,
            name=f"{sample_set.label}/{first.split}",
            kind="samples",
            seed=first.seed,
            tokenizer=tokens.tokenizer.model_dump(),
            totals={
                "tokens_by_language": set_counts["by_language"],
                "skipped": set_counts["tokens_dropped"],
            },
            grouping={"name": entry.pop("name"), "options": entry},
            languages=tokens.languages,
            parents=parents,
            config={
                "heldout_fraction": first.fraction,
                "least_tokens": sample_set.minimum.tokens,
                "least_sentences": sample_set.minimum.sentences,
            },
        )

        counted = set_counts["samples"], sum(set_counts["by_language"].values())
        written = manifest.totals.samples, manifest.totals.tokens
        require_written(f"group {manifest.name}: manifest", counted, written)


_SET_COUNTS: Final = ("sets", EACH, EACH)
"""Path to the counts of a set: its label and split."""
_TOKEN_EQUATION: Final = Equation(
    ["tokens_in"], ["tokens_in_samples", "tokens_dropped"], unit="token", within=_SET_COUNTS
)
"""In each set, each token is in a row or is dropped for a reason."""
_LANGUAGE_EQUATION: Final = Equation(
    ["by_language", "target_tokens"], ["tokens_in_samples", "separators"], within=_SET_COUNTS
)


class GroupStage(Stage[GroupConfig, GroupCounts]):
    """Group token shard k into sample shard k of every set; held-out documents get other shards."""

    name: ClassVar[str] = "group"
    cpu_seconds_per_mb: ClassVar[float] = 0.026
    equations: ClassVar[tuple[Equation, ...]] = (
        _TOKEN_EQUATION,
        _LANGUAGE_EQUATION,
    )
    needs: ClassVar[tuple[str, ...]] = ("encode",)

    @property
    def _tokens(self) -> Path:
        return self.recipe.folder("encode")

    @property
    def _entries(self) -> Sequence[Any]:
        """Return the objectives of the recipe."""
        if not self.recipe.has("corrupt"):
            raise ConfigurationError(
                "group: the objectives of the recipe decide which samples are written; add the key "
                "`corrupt` with a list of objectives"
            )
        entries: Sequence[Any] = self.recipe.config_of("corrupt")
        return entries

    @cached_property
    def sets(self) -> tuple[SampleSet, ...]:
        """Return the sample sets, in order of their labels."""
        manifest = Manifest.load(self._tokens)
        vocabulary = find_vocabulary(self._tokens / "manifest.json", manifest.tokenizer.fingerprint)
        return sample_sets(self._entries, vocabulary)

    def validate(self) -> Iterator[str]:
        """Yield the errors of objectives that the vocabulary shows before the stage runs."""
        vocabulary = tokenizer_stage(self.recipe).expected_tokenizer().vocabulary
        for number, entry in enumerate(self._entries):
            try:
                entry.build(vocabulary)
            except TokenizerMissingError:
                continue  # the length of its templates is known after the tokenizer is trained
            except ConfigurationError as error:
                yield f"corrupt.{number}: {error}"

    def passes(self) -> Sequence[Pass[GroupCounts]]:
        splits = Splits(len(Manifest.load(self._tokens).shards), self.recipe.heldout.fraction)
        shards = [
            GroupShard(
                sample_set,
                split,
                shard,
                count,
                splits.shards,
                splits.fraction,
                self.config.block_rows,
                self.config.compression,
                self.recipe.seed,
                self.recipe.has("balance"),
            )
            for sample_set in self.sets
            for split, count in splits.items()
            for shard in range(count)
        ]
        manifests = [GroupManifest(unit) for unit in shards if unit.shard == 0]
        return [
            Pass("main", {unit.name: unit for unit in shards}),
            Pass("manifest", {unit.name: unit for unit in manifests}, lists_units=True),
        ]

    def row(self, counts: GroupCounts) -> StageRow:
        """Show the documents, and for each set its input tokens, its samples and their tokens."""
        # each set reads the same documents
        some = next(iter(counts["sets"].values()))
        total = sum(part["read"]["documents"] for part in some.values())
        left_out = sum(part["copies"]["left_out"] for part in some.values() if "copies" in part)
        sets = tuple((label, _set_row(splits)) for label, splits in counts["sets"].items())
        return StageRow(
            plural(total, "document"),
            plural(len(sets), "set"),
            (("document", {"without a copy in training": left_out}),),
            sets,
            totals={"document": total},
        )

    def ruling_key(self, reason: str) -> str:
        return "balance"

    def consumes(self, counts: GroupCounts) -> Sequence[Consumed]:
        return [
            Consumed(split_amount(split, what), amount)
            for splits in counts.get("sets", {}).values()
            for split, part in splits.items()
            for what, amount in cast(Mapping[str, int], part["read"]).items()
        ]

    def provides(self, counts: GroupCounts) -> Mapping[str, int]:
        return {
            f"{what} of {label}/{split}": amount
            for label, splits in counts.get("sets", {}).items()
            for split, part in splits.items()
            for what, amount in (
                ("samples", part["samples"]),
                ("tokens", sum(part["by_language"].values())),
            )
        }

    def check(self, counts: GroupCounts, *, complete: bool = True) -> None:
        """Check the equations, and that each set takes all tokens of the documents or copies."""
        super().check(counts, complete=complete)
        sets = [
            (label, *item)
            for label, splits in counts.get("sets", {}).items()
            for item in splits.items()
        ]
        for label, split, set_counts in sets:
            where = f"group {label}/{split}"
            tokens_in = set_counts["tokens_in"]
            # only sets of pairs read both sides
            pairs = "target_tokens" in set_counts

            copied = "copies" in set_counts
            documents = set_counts["copies"] if copied else set_counts["read"]
            total = documents["tokens"] + pairs * documents["target_tokens"]
            require_equal(
                where,
                "tokens_in",
                tokens_in,
                f"tokens of the {'copies' if copied else 'documents'}",
                total,
            )


def _set_row(splits: Mapping[str, SampleSetCounts]) -> StageRow:
    total: SampleSetCounts = {}
    for set_counts in splits.values():
        add_counts(total, set_counts)
    out = f"{plural(total['samples'], 'sample')}\n{total['tokens']:,} tokens"
    return StageRow.of(total, [_TOKEN_EQUATION], plural(total["tokens_in"], "token"), out)
