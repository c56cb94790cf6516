"""The stage `group`: cut token documents into samples, for training and held-out sets."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypedDict

import numpy as np

from clozeline.errors import ConfigurationError, TokenizerMissingError, plural
from clozeline.pipeline.block_options import BlockRows, Compression
from clozeline.pipeline.execution.contributions import DocumentCopies, ParentFile
from clozeline.pipeline.execution.equations import EACH, Equation, StageRow
from clozeline.pipeline.execution.stages import (
    Pass,
    Stage,
    Unit,
    parents_of,
    stage_of,
    stages_of,
    tokenizer_stage,
)
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import (
    Counts,
    Output,
    add_counts,
    require_written,
)
from clozeline.pipeline.group.config import GroupConfig
from clozeline.pipeline.group.documents import (
    copy_documents,
    count_tokens,
    heldout_documents,
    token_shards,
    train_documents,
)
from clozeline.pipeline.group.groupings import (
    Context,
    GroupingSpec,
    MinimumRow,
    build_grouping,
)
from clozeline.pipeline.rows import WORD_STARTS, RowBatch
from clozeline.pipeline.shards import Manifest, SetWriter, open_shards
from clozeline.pipeline.shards.layout import Splits
from clozeline.pipeline.tokenize.stage_files import open_token_shards, open_vocabulary
from clozeline.pipeline.tokenize.tokenizers import find_vocabulary
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import mix


class SampleSetCounts(TypedDict, total=False):
    """Counts of one split of a sample set; a grouping may add further counts."""

    documents_in: int
    left_out: int
    """documents without a copy; only if a stage decides about copies"""
    tokens_in: int
    """tokens of the documents, or of their copies"""
    tokens_in_samples: int
    tokens_dropped: dict[str, int]
    """tokens that are in no row, by reason"""
    separators: int
    """separators between documents of a row"""
    target_tokens: int
    """tokens in samples from the other sides of pairs"""
    samples: int
    by_language: dict[str, int]
    """tokens and separators by the language of the row's first document"""


class GroupCounts(Counts, total=False):
    """Counts of `group`: those of each set, by label and split."""

    sets: dict[str, dict[str, SampleSetCounts]]
    # `sources`: training tokens by set


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

    VERSION = 2
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
    copies: tuple[DocumentCopies, ...]
    """what other stages decide; without any, each document has one copy"""

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

        vocabulary = open_vocabulary(inputs)
        grouping = build_grouping(sample_set.spec, vocabulary)
        of_set: Any = {"documents_in": len(documents)}

        if self.split == "train" and self.copies:
            counted = [each.count(documents, tokens, inputs) for each in self.copies]
            copies = np.prod(counted, axis=0)
            of_set["left_out"] = int((copies == 0).sum())
            documents = copy_documents(documents, copies, self.seed)

        # their tokens: of both sides if rows are pairs
        are_pairs = any(each.name == "target_ids" for each in grouping.columns)
        lengths = count_tokens(documents) if are_pairs else documents.columns["token_ids"].lengths
        of_set["tokens_in"] = int(lengths.sum())
        of_source = np.bincount(documents.fixed["source_group"], lengths).tolist()
        by_source = dict(zip(tokens.source_groups, map(int, of_source), strict=False))

        # the shard of the sample set
        context = Context(sample_set.label, self.seed, tokens.source_groups)
        grouped = grouping.group(documents, sample_set.minimum, context)
        writer = self.writer(vocabulary, tokens.columns)
        rows = grouped.rows
        writer.write_shard(output, self.shard, _iter_shuffled(rows, writer.block_rows))

        # count its samples and tokens
        in_language = np.bincount(rows.fixed["language"], rows.columns["ids"].lengths)
        by_language = {
            tokens.languages[code]: int(in_language[code]) for code in np.flatnonzero(in_language)
        }
        of_set |= {**grouped.counts, "samples": len(rows), "by_language": by_language}
        counts: GroupCounts = {"sets": {sample_set.label: {self.split: of_set}}}
        if self.split == "train":
            counts["sources"] = {sample_set.label: by_source}
        return counts

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


def _iter_shuffled(rows: RowBatch, portion: int) -> Iterator[RowBatch]:
    """Yield the rows in portions, in the order of a hash of their uids."""
    order = np.argsort(mix(rows.fixed["uid"]), kind="stable")
    for start in range(0, len(order), portion):
        yield rows.take(order[start : start + portion])


@dataclass(frozen=True)
class GroupManifest(Unit[GroupCounts]):
    """Write the manifest of one split of a sample set, after its shards.

    The set has the counts of the ids, because a trainer that corrupts its rows draws by them.
    """

    VERSION = 2
    first: GroupShard
    """its first shard"""
    parents: tuple[ParentFile, ...]
    """files of other stages that are parents of the set"""

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
        documents = set_counts["documents_in"]

        if split == "heldout" and not set_counts["samples"] and not documents:
            train = inputs.sum_counts("group", "main", f"{sample_set.label}.train.")
            total = train["sets"][sample_set.label]["train"]["documents_in"]
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
        vocabulary = open_vocabulary(inputs)
        corpus = inputs.corpus("encode", "manifest", "000000")
        entry = sample_set.spec.entry()

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
            token_counts=None if corpus is None else corpus.read("counts"),
            parents=[
                tokens.as_parent("tokens"),
                *(each.describe(inputs) for each in self.parents),
            ],
            config={
                "heldout_fraction": first.fraction,
                "least_tokens": sample_set.minimum.tokens,
                "least_sentences": sample_set.minimum.sentences,
            },
        )

        tokens_written = sum(set_counts["by_language"].values())
        require_written("group", set_counts["samples"], tokens_written, manifest)


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

    name = "group"
    after = ("encode",)
    in_heldout = True
    cpu_seconds_per_mb = 0.043
    equations = (
        _TOKEN_EQUATION,
        _LANGUAGE_EQUATION,
    )
    needs = ("encode",)

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
        tokens = open_shards(self._tokens, check_files=False)
        return sample_sets(self._entries, find_vocabulary(tokens))

    @cached_property
    def _copies(self) -> Mapping[str, DocumentCopies]:
        """What other stages decide about copies, by the names of these."""
        return {
            name: copies
            for name in stages_of(self.recipe)
            if (copies := stage_of(self.recipe, name).document_copies) is not None
        }

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

    @property
    def set_names(self) -> Collection[str]:
        return [each.label for each in self.sets]

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
                tuple(self._copies.values()),
            )
            for sample_set in self.sets
            for split, count in splits.items()
            for shard in range(count)
        ]
        parents = parents_of(self.recipe, self.name)
        manifests = [GroupManifest(unit, parents) for unit in shards if unit.shard == 0]
        return [
            Pass("main", {unit.name: unit for unit in shards}),
            Pass("manifest", {unit.name: unit for unit in manifests}, lists_units=True),
        ]

    def row(self, counts: GroupCounts) -> StageRow:
        """Show the documents, and for each set its input tokens, its samples and their tokens.

        The tokens of sources are those of the largest set.
        """
        # each set reads the same documents
        total = self.count_read_documents(counts)[0]
        some = next(iter(counts["sets"].values()))
        left_out = sum(part.get("left_out", 0) for part in some.values())
        sets = tuple((label, _set_row(splits)) for label, splits in counts["sets"].items())
        of_sets = counts.get("sources", {}).values()
        tokens = max(of_sets, key=lambda by_source: sum(by_source.values()), default={})
        of_token = 100 / max(1, sum(tokens.values()))
        shares = {name: round(count * of_token, 1) for name, count in tokens.items()}
        return StageRow(
            plural(total, "document"),
            plural(len(sets), "set"),
            (("document", {"without a copy in training": left_out}),),
            sets,
            totals={"document": total},
            sources={"training": tokens, "share": shares},
        )

    def ruling_key(self, reason: str) -> str:
        return ", ".join(self._copies)

    def count_read_documents(self, counts: GroupCounts) -> Sequence[int]:
        """Return the documents that each set has read, in all its splits."""
        return [
            sum(split["documents_in"] for split in splits.values())
            for splits in counts["sets"].values()
        ]


def _set_row(splits: Mapping[str, SampleSetCounts]) -> StageRow:
    total: SampleSetCounts = {}
    for set_counts in splits.values():
        add_counts(total, set_counts)
    out = f"{plural(total['samples'], 'sample')}\n{total['tokens_in_samples']:,} tokens"
    return StageRow.of(total, [_TOKEN_EQUATION], plural(total["tokens_in"], "token"), out)
