"""The stage `corrupt`: turn samples into examples, one set per objective.

`data.corrupt` does the same during training.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final, TypedDict

import numpy as np

from clozeline.configuration.config import to_data
from clozeline.errors import ConfigurationError, plural
from clozeline.pipeline.corrupt.config import ObjectiveEntry
from clozeline.pipeline.corrupt.objectives import Objective, Skip
from clozeline.pipeline.corrupt.preview.set_examples import example_views
from clozeline.pipeline.execution.equations import EACH, Equation, StageRow, add_up
from clozeline.pipeline.execution.stages import Pass, Stage, Unit
from clozeline.pipeline.execution.unit_inputs import SomeShards, UnitInputs
from clozeline.pipeline.execution.unit_record import (
    Counts,
    Output,
    add_counts,
    require_written,
)
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import SetWriter, open_shards
from clozeline.pipeline.shards.layout import Splits
from clozeline.pipeline.tokenize.stage_files import open_token_shards, open_vocabulary
from clozeline.pipeline.tokenize.tokenizers import find_vocabulary
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.report.views import Section

_LOG: Final = logging.getLogger(__name__)


class ExampleSetCounts(TypedDict, total=False):
    """Counts of one split of an example set; an objective may add further counts."""

    samples_in: int
    examples: int
    skipped: dict[str, int]
    """samples without an example, by reason"""
    unused_tokens: int
    """tokens of samples that are in no example"""
    tokens: int
    by_language: dict[str, int]
    """tokens by the language of the row's first document"""


class CorruptCounts(Counts, total=False):
    """Counts of `corrupt`: those of each set, by label and split."""

    objectives: dict[str, dict[str, ExampleSetCounts]]


@dataclass(frozen=True)
class CorruptShard(Unit[CorruptCounts]):
    """Corrupt one sample shard under one variant into one example shard, rows in the same order."""

    entry: ObjectiveEntry
    grouping: str
    """label of the sample set"""
    split: str
    shard: int
    shards: int
    variant: int
    variants: int
    seed: int

    @property
    def file_number(self) -> int:
        """Return the index of the example shard in its set."""
        return self.variant * self.shards + self.shard

    @property
    def name(self) -> str:
        return f"{self.entry.set_label}.{self.split}.{self.variant:05d}.{self.shard:05d}"

    def run(self, inputs: UnitInputs, output: Output) -> CorruptCounts:
        entry = self.entry
        source = inputs.shards("group", "manifest", *self.samples, [self.shard])
        languages = open_token_shards(inputs, []).languages
        objective = entry.build(replace(self.load_vocabulary(inputs), languages=languages))
        shard = CorruptedShard(objective, source, self.variant, self.seed)

        # the counts of the shard are complete after it was written
        writer = set_writer(entry, objective, self.split, self.shards * self.variants)
        writer.write_shard(output, self.file_number, shard.blocks())
        shard.counts["tokens"] = sum(shard.counts["by_language"].values())
        return {"objectives": {entry.set_label: {self.split: shard.counts}}}

    @property
    def samples(self) -> tuple[str, str]:
        """Name of the unit with the manifest of the samples, and of that file."""
        return f"{self.grouping}.{self.split}", f"{self.grouping}/{self.split}/manifest.json"

    def load_vocabulary(self, inputs: UnitInputs) -> Vocabulary:
        """Return the vocabulary, with the counts of the corpus."""
        vocabulary = open_vocabulary(inputs)
        return replace(vocabulary, corpus=inputs.corpus("encode", "manifest", "000000"))


def example_units(
    entries: Sequence[ObjectiveEntry], splits: Splits, vocabulary: Vocabulary, seed: int
) -> Iterator[CorruptShard]:
    """Yield all shards of the stage, in order."""
    for entry in entries:
        grouping = entry.build(vocabulary).grouping.label
        own_seed = seed if entry.seed is None else entry.seed
        for split, shards in splits.items():
            variants = entry.variants if split == "train" else 1
            for variant, shard in product(range(variants), range(shards)):
                yield CorruptShard(
                    entry, grouping, split, shard, shards, variant, variants, own_seed
                )


def set_writer(entry: ObjectiveEntry, objective: Objective, split: str, shards: int) -> SetWriter:
    """Return the writer of one split of an example set."""
    return SetWriter.of_rows(
        f"{entry.set_label}/{split}",
        shards,
        objective.features,
        objective.vocabulary,
        objective.content_length,
        entry.block_rows,
        {"objective": entry.set_label},
        container=entry.container,
        compression=entry.compression,
    )


@dataclass
class CorruptedShard:
    """Examples of one sample shard under one variant.

    The counts are complete when all blocks have been read.
    """

    objective: Objective
    source: SomeShards
    variant: int
    seed: int
    counts: ExampleSetCounts = field(
        default_factory=lambda: ExampleSetCounts(
            samples_in=0, examples=0, skipped={}, by_language={}
        )
    )

    def blocks(self) -> Iterator[RowBatch]:
        """Yield examples block by block, without skipped rows; count them."""
        for samples in self.source.blocks():
            # corrupt the block, and drop skipped rows
            variants = np.full(len(samples), self.variant, dtype=np.uint16)
            examples, skips = self.objective.corrupt(samples, variants, self.seed)
            total = len(samples)

            if skips.any():
                rows = np.flatnonzero(skips == Skip.NONE)
                examples = examples.take(rows)
                samples = samples.take(rows)

            # count examples, skipped rows and tokens
            if unused := self.objective.count_unused_tokens(samples, examples):
                add_counts(self.counts, {"unused_tokens": unused})
            skipped = {
                Skip(code).reason: int(rows)
                for code, rows in enumerate(np.bincount(skips))
                if code and rows
            }

            lengths = examples.columns[self.objective.features[0].name].lengths
            tokens = np.bincount(examples.fixed["language"], lengths)
            languages = self.source.languages
            by_language = {languages[code]: int(tokens[code]) for code in np.flatnonzero(tokens)}
            add_counts(self.counts, self.objective.tally(examples))
            add_counts(
                self.counts,
                {
                    "samples_in": total,
                    "examples": len(examples),
                    "skipped": skipped,
                    "by_language": by_language,
                },
            )
            yield examples


@dataclass(frozen=True)
class CorruptManifest(Unit[CorruptCounts]):
    """Write the manifest of one split of an example set, after its shards."""

    first: CorruptShard
    """its first shard"""

    @property
    def name(self) -> str:
        return f"{self.first.entry.set_label}.{self.first.split}"

    def run(self, inputs: UnitInputs, output: Output) -> CorruptCounts:
        """Write the manifest; raise ConfigurationError if the set is empty."""
        entry = self.first.entry
        split = self.first.split
        counts: CorruptCounts = inputs.sum_counts("corrupt", "main", f"{self.name}.")
        set_counts = counts["objectives"][entry.set_label][split]
        if not set_counts["examples"]:
            raise ConfigurationError(
                f"corrupt: the {split} set of '{entry.set_label}' is empty: all "
                f"{set_counts['samples_in']} samples were skipped, by reason: "
                f"{set_counts['skipped']}"
            )
        self._write(set_counts, inputs, output)
        return {}

    def _write(self, set_counts: ExampleSetCounts, inputs: UnitInputs, output: Output) -> None:
        first = self.first
        entry = first.entry
        split = first.split
        samples = inputs.shards("group", "manifest", *first.samples)
        vocabulary = replace(first.load_vocabulary(inputs), languages=samples.languages)
        objective = entry.build(vocabulary)
        if objective.caution and split == "train":
            _LOG.warning("corrupt: %s: %s", entry.set_label, objective.caution)

        def read(number: int, name: str) -> str:
            variant, shard = divmod(number, first.shards)
            unit = replace(first, variant=variant, shard=shard)
            return inputs.file("corrupt", "main", unit.name, name).text()

        shards = first.shards * first.variants
        manifest = set_writer(entry, objective, split, shards).write_manifest(
            output,
            read,
            name=f"{entry.set_label}/{split}",
            kind="examples",
            seed=first.seed,
            tokenizer=samples.tokenizer.model_dump(),
            totals={
                "tokens_by_language": set_counts["by_language"],
                "skipped": set_counts["skipped"],
            },
            grouping=samples.grouping.model_dump() if samples.grouping else None,
            variants=first.variants,
            objective={
                "name": type(objective).name,
                "label": objective.label,
                "options": to_data(entry.objective.options),
                "architecture": objective.architecture,
                "heads": list(objective.heads),
                "frame": objective.form.model_dump(),
            },
            languages=samples.languages,
            parents=[samples.as_parent("samples")],
            config=to_data(entry),
        )

        require_written("corrupt", set_counts["examples"], set_counts["tokens"], manifest)


_SET_COUNTS: Final = ("objectives", EACH, EACH)
"""Path to the counts of a set: its label and split."""
_SAMPLE_EQUATION: Final = Equation(
    ["samples_in"], ["examples", "skipped"], unit="sample", within=_SET_COUNTS
)
"""Each sample of each variant gives an example, or is skipped with a reason."""


class CorruptStage(Stage[list[ObjectiveEntry], CorruptCounts]):
    """Corrupt sample shard k under variant v into example shard v * K + k, in the same order."""

    name = "corrupt"
    after = ("group",)
    in_heldout = True
    cpu_seconds_per_mb = 0.016
    equations = (_SAMPLE_EQUATION,)
    needs = ("group",)

    @property
    def set_names(self) -> Collection[str]:
        return [entry.set_label for entry in self.config]

    def passes(self) -> Sequence[Pass[CorruptCounts]]:
        token_set = open_shards(self.recipe.folder("encode"), check_files=False)
        tokens = token_set.manifest
        vocabulary = replace(find_vocabulary(token_set), languages=tokens.languages)
        splits = Splits(len(tokens.shards), self.recipe.heldout.fraction)
        shards = list(example_units(self.config, splits, vocabulary, self.recipe.seed))
        manifests = [CorruptManifest(unit) for unit in shards if unit.file_number == 0]
        return [
            Pass("main", {unit.name: unit for unit in shards}),
            Pass("manifest", {unit.name: unit for unit in manifests}, lists_units=True),
        ]

    def row(self, counts: CorruptCounts) -> StageRow:
        """Show the examples of all objectives, and the samples and examples of each one.

        Samples count once for each variant.
        """
        variants = {entry.set_label: entry.variants for entry in self.config}
        sets = tuple(
            (label, _set_row(splits, variants[label]))
            for label, splits in counts["objectives"].items()
        )
        examples = add_up(counts, [(*_SET_COUNTS, "examples")])
        return StageRow(plural(len(sets), "objective"), plural(examples, "example"), (), sets)

    def page_sections(self) -> Iterator[Section]:
        """Yield some examples of each objective, as `inspect-shard` shows them."""
        manifests = {
            entry.set_label: self.folder / entry.set_label / "train" / "manifest.json"
            for entry in self.config
        }
        examples = [
            Section(label, [*example_views(path)], is_folded=True)
            for label, path in manifests.items()
        ]
        yield Section("Some examples of each objective", examples)


def _set_row(splits: Mapping[str, ExampleSetCounts], variants: int) -> StageRow:
    total: ExampleSetCounts = {}
    for set_counts in splits.values():
        add_counts(total, set_counts)
    samples = plural(total["samples_in"], "sample")

    if variants > 1:
        train, heldout = (
            splits[split]["samples_in"] if split in splits else 0 for split in ("train", "heldout")
        )
        samples += f"\n= {train // variants:,} x {variants} variants" + (
            f"\n+ {heldout:,} held out" if heldout else ""
        )

    out = f"{plural(total['examples'], 'example')}\n{total['tokens']:,} tokens"
    return StageRow.of(total, [_SAMPLE_EQUATION], samples, out)
