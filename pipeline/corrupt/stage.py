"""The stage `corrupt`: turn samples into examples, one set per objective.

`data.corrupt` does the same during training.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, TypedDict, cast

import numpy as np

from clozeline.configuration.config import config_digest, to_data
from clozeline.errors import ConfigurationError, plural
from clozeline.pipeline.corrupt.config import ObjectiveEntry
from clozeline.pipeline.corrupt.objectives import Objective, Skip
from clozeline.pipeline.corrupt.preview.set_examples import example_views
from clozeline.pipeline.corrupt.preview.view import view_html
from clozeline.pipeline.execution.equations import EACH, Equation, StageRow
from clozeline.pipeline.execution.stages import (
    Consumed,
    Pass,
    Stage,
    describe_algorithms,
    tokenizer_stage,
)
from clozeline.pipeline.execution.unit_record import (
    Counts,
    KnownRecords,
    Output,
    add_counts,
    require_equal,
    require_written,
    total_counts,
)
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import Manifest, SetWriter, ShardSet, open_shards
from clozeline.pipeline.shards.layout import Splits
from clozeline.pipeline.tokenize.stage_files import digest_tokenizer
from clozeline.pipeline.tokenize.tokenizers import find_vocabulary
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.recorded_file import check_files
from clozeline.registry import component_types
from clozeline.report.html_page import escape

_LOG: Final = logging.getLogger(__name__)
_VERSION: Final = 1
"""Raised when the same samples and options give other examples of several objectives."""


class SampleReadCounts(TypedDict):
    """Samples of a set and tokens of these samples, counted while they are read."""

    samples: int
    tokens: int


class RowCounts(TypedDict, total=False):
    """Samples, and the examples made of them; an objective may add further counts."""

    samples_in: int
    examples: int
    skipped: dict[str, int]
    """samples without an example, by reason"""
    unused_tokens: int
    """tokens of samples that are in no example"""
    tokens: int


class ExampleSetCounts(RowCounts, total=False):
    """Counts of one split of an example set."""

    by_language: dict[str, int]
    """tokens by the language of the row's first document"""
    read: dict[str, SampleReadCounts]
    """by label of the sample set; each variant counts the same"""


class CorruptCounts(RowCounts, Counts, total=False):
    """Counts of `corrupt`: sums over all sets, and the counts of each set by label and split."""

    objectives: dict[str, dict[str, ExampleSetCounts]]


@dataclass(frozen=True)
class ExampleUnit:
    """The example shard that a unit writes: one sample shard under one variant, for one entry."""

    entry: ObjectiveEntry
    split: str
    shard: int
    shards: int
    variant: int
    variants: int

    @property
    def file_number(self) -> int:
        """Return the index of the example shard in its set."""
        return self.variant * self.shards + self.shard

    @property
    def name(self) -> str:
        return f"{self.entry.set_label}.{self.split}.{self.variant:05d}.{self.shard:05d}"


def example_units(entries: Sequence[ObjectiveEntry], splits: Splits) -> tuple[ExampleUnit, ...]:
    """Return all units of the stage, in order."""
    return tuple(
        ExampleUnit(entry, split, shard, shards, variant, variants)
        for entry in entries
        for split, shards in splits.items()
        for variants in [entry.variants if split == "train" else 1]
        for variant in range(variants)
        for shard in range(shards)
    )


@dataclass(frozen=True)
class CorruptShards(Pass[CorruptCounts]):
    """Corrupt one sample shard under one variant into one example shard, rows in the same order."""

    units: int
    tokens: Path
    tokenizer: Path
    samples: Path
    made: tuple[ExampleUnit, ...]
    seed: int
    described: Mapping[str, Mapping[str, Any]]
    """versions and options that determine the examples, by the label of the set"""
    name: str = "main"

    def unit_name(self, unit: int) -> str:
        return self.made[unit].name

    def options(self, unit: int) -> Mapping[str, Any]:
        return self.described[self.made[unit].entry.set_label]

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        made = self.made[unit]
        grouping, corpus = self.find_sources(made.entry.set_label, known)
        shard = f"{grouping}.{made.split}.{made.shard:05d}"
        return {
            "samples": known.digest(self.samples, "main", shard),
            "codes": known.digest(self.tokens, "codes", "000000"),
            "tokenizer": digest_tokenizer(self.tokenizer, known),
            "shards": f"{made.shards}",
            **corpus,
        }

    def find_sources(self, label: str, known: KnownRecords) -> tuple[str, Mapping[str, str]]:
        """Return the sample set of an objective, and digests of what it reads of the corpus."""

        def find() -> tuple[str, Mapping[str, str]]:
            known.find(self.tokens, "manifest", "000000")
            entry = next(made.entry for made in self.made if made.entry.set_label == label)
            objective = entry.build(self.load_vocabulary())
            digest = objective.digest_corpus()
            corpus = {"token counts": digest} if digest else {}
            return objective.grouping.label, corpus

        return known.once((self.samples, label), find)

    def run(self, unit: int, output: Output) -> CorruptCounts:
        made = self.made[unit]
        entry = made.entry
        objective, source = self.open(entry, made.split)
        shard = CorruptedShard(objective, source, made, self.seed_of(entry))

        # the counts of the shard are complete after it was written
        writer = set_writer(entry, objective, made.split, made.shards * made.variants)
        info = writer.write_shard(output, made.file_number, shard.blocks())
        shard.counts["tokens"] = info.tokens
        read = {objective.grouping.label: shard.read}
        set_counts: ExampleSetCounts = {
            **shard.counts,
            "by_language": shard.by_language,
            "read": read,
        }

        counted = shard.counts["examples"], sum(shard.by_language.values())
        require_written(
            f"corrupt {writer.path}: shard {made.file_number}", counted, (info.rows, info.tokens)
        )
        counts: CorruptCounts = {"objectives": {entry.set_label: {made.split: set_counts}}}
        return add_counts(counts, cast(CorruptCounts, shard.counts))

    def load_vocabulary(self) -> Vocabulary:
        """Return the vocabulary of the token set, with the counts and languages of the corpus."""
        tokens = Manifest.load(self.tokens)
        vocabulary = find_vocabulary(self.tokens / "manifest.json", tokens.tokenizer.fingerprint)
        return replace(vocabulary, languages=tokens.languages)

    def open(self, entry: ObjectiveEntry, split: str) -> tuple[Objective, ShardSet]:
        """Return the objective, and the sample set that the objective reads."""
        objective = entry.build(self.load_vocabulary())
        label = objective.grouping.label
        check_files(self.samples, f"manifest/{label}.{split}", f"{label}/{split}/manifest.json")
        return objective, open_shards(self.samples / label / split)

    def seed_of(self, entry: ObjectiveEntry) -> int:
        """Return the seed of all random draws of an entry."""
        return self.seed if entry.seed is None else entry.seed


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
    source: ShardSet
    unit: ExampleUnit
    seed: int
    counts: RowCounts = field(
        default_factory=lambda: RowCounts(samples_in=0, examples=0, skipped={})
    )
    by_language: dict[str, int] = field(default_factory=dict)
    read: SampleReadCounts = field(default_factory=lambda: SampleReadCounts(samples=0, tokens=0))

    def blocks(self) -> Iterator[RowBatch]:
        """Yield examples block by block, without skipped rows; count them."""
        for block in np.flatnonzero(self.source.index.shard == self.unit.shard).tolist():
            samples = self.source.read_block(block)
            add_counts(
                self.read,
                {"samples": len(samples), "tokens": int(samples.columns["ids"].lengths.sum())},
            )

            # corrupt the block, and drop skipped rows
            variants = np.full(len(samples), self.unit.variant, dtype=np.uint16)
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

            add_counts(self.counts, self.objective.tally(examples))
            add_counts(
                self.counts, {"samples_in": total, "examples": len(examples), "skipped": skipped}
            )
            lengths = examples.columns[self.objective.features[0].name].lengths
            tokens = np.bincount(examples.fixed["language"], lengths)
            languages = self.source.manifest.languages
            add_counts(
                self.by_language,
                {languages[code]: int(tokens[code]) for code in np.flatnonzero(tokens)},
            )
            yield examples


@dataclass(frozen=True)
class CorruptManifests(Pass[CorruptCounts]):
    """Write the manifest of each split of an example set, after its shards."""

    lists_units: ClassVar[bool] = True
    shards: CorruptShards
    folder: Path
    """folder of the stage"""
    sets: tuple[tuple[ObjectiveEntry, str], ...]
    """entry and split of each unit"""
    units: int
    name: str = "manifest"

    def unit_name(self, unit: int) -> str:
        entry, split = self.sets[unit]
        return f"{entry.set_label}.{split}"

    def options(self, unit: int) -> Mapping[str, Any]:
        return self.shards.described[self.sets[unit][0].set_label]

    def _find_units(self, unit: int) -> list[ExampleUnit]:
        """Return the units that write the shards of a set."""
        return [made for made in self.shards.made if (made.entry, made.split) == self.sets[unit]]

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        names = [made.name for made in self._find_units(unit)]
        found = [known.find(self.folder, self.shards.name, name) for name in names]
        label = self.sets[unit][0].set_label
        grouping, _ = self.shards.find_sources(label, known)
        split = self.sets[unit][1]
        known.find(self.shards.samples, "manifest", f"{grouping}.{split}")
        samples = Manifest.load(self.shards.samples / grouping / split)
        described = [samples.digest, samples.languages, samples.tokenizer.model_dump()]
        return {
            "shards": config_digest([[record.digest(), record.counts] for record in found]),
            "samples": config_digest(described),
        }

    def run(self, unit: int, output: Output) -> CorruptCounts:
        """Write the manifest; raise ConfigurationError if the set is empty."""
        entry, split = self.sets[unit]
        counts: CorruptCounts = total_counts(output.folder, self.shards.name)
        set_counts = counts["objectives"][entry.set_label][split]
        if not set_counts["examples"]:
            raise ConfigurationError(
                f"corrupt: the {split} set of '{entry.set_label}' is empty: all "
                f"{set_counts['samples_in']} samples were skipped, by reason: "
                f"{set_counts['skipped']}"
            )
        self._write(entry, split, self._find_units(unit), set_counts, output)
        return {}

    def _write(
        self,
        entry: ObjectiveEntry,
        split: str,
        made: Sequence[ExampleUnit],
        set_counts: ExampleSetCounts,
        output: Output,
    ) -> None:
        work, (objective, source) = self.shards, self.shards.open(entry, split)
        if objective.caution and split == "train":
            _LOG.warning("corrupt: %s: %s", entry.set_label, objective.caution)
        samples = source.manifest
        manifest = set_writer(entry, objective, split, len(made)).write_manifest(
            output,
            name=f"{entry.set_label}/{split}",
            kind="examples",
            seed=work.seed_of(entry),
            tokenizer=samples.tokenizer.model_dump(),
            totals={
                "tokens_by_language": set_counts["by_language"],
                "skipped": set_counts["skipped"],
            },
            grouping=samples.grouping.model_dump() if samples.grouping else None,
            variants=made[0].variants,
            objective=objective_metadata(entry, objective),
            languages=samples.languages,
            parents=[{"name": samples.name, "digest": samples.digest, "role": "samples"}],
            config=to_data(entry),
        )

        written = manifest.totals.samples, manifest.totals.tokens
        require_written(
            f"corrupt {manifest.name}: manifest",
            (set_counts["examples"], set_counts["tokens"]),
            written,
        )


def objective_metadata(entry: ObjectiveEntry, objective: Objective) -> dict[str, object]:
    """Return the value of the manifest's key `objective`."""
    return {
        "name": objective.name,
        "label": objective.label,
        "options": to_data(entry.objective.options),
        "architecture": objective.architecture,
        "heads": list(objective.heads),
        "frame": asdict(objective.layout),
    }


_SET_COUNTS: Final = ("objectives", EACH, EACH)
"""Path to the counts of a set: its label and split."""
_SAMPLE_EQUATION: Final = Equation(
    ["samples_in"], ["examples", "skipped"], unit="sample", within=_SET_COUNTS
)
"""Each sample of each variant gives an example, or is skipped with a reason."""


def _describe_entry(entry: ObjectiveEntry, seed: int) -> Mapping[str, Any]:
    """Return the versions and options that determine the examples of an entry, as JSON data."""
    return {
        **describe_algorithms(component_types(entry)),
        "version": _VERSION,
        entry.set_label: to_data(entry),
        "seed": seed if entry.seed is None else entry.seed,
    }


class CorruptStage(Stage[list[ObjectiveEntry], CorruptCounts]):
    """Corrupt sample shard k under variant v into example shard v * K + k, in the same order."""

    name: ClassVar[str] = "corrupt"
    cpu_seconds_per_mb: ClassVar[float] = 0.022
    equations: ClassVar[tuple[Equation, ...]] = (_SAMPLE_EQUATION,)
    needs: ClassVar[tuple[str, ...]] = ("group",)

    def passes(self) -> Sequence[Pass[CorruptCounts]]:
        tokens = self.recipe.folder("encode")
        splits = Splits(len(Manifest.load(tokens).shards), self.recipe.heldout.fraction)
        units = example_units(self.config, splits)
        tokenizer = tokenizer_stage(self.recipe).folder / "tokenizer"
        samples = self.recipe.folder("group")
        seed = self.recipe.seed
        described = {entry.set_label: _describe_entry(entry, seed) for entry in self.config}
        work = CorruptShards(len(units), tokens, tokenizer, samples, units, seed, described)
        sets = tuple((entry, split) for entry in self.config for split, _ in splits.items())
        return [work, CorruptManifests(work, self.folder, sets, len(sets))]

    def row(self, counts: CorruptCounts) -> StageRow:
        """Show the examples of all objectives, and the samples and examples of each one.

        Samples count once for each variant.
        """
        variants = {entry.set_label: entry.variants for entry in self.config}
        sets = tuple(
            (label, _set_row(splits, variants[label]))
            for label, splits in counts["objectives"].items()
        )
        return StageRow(
            plural(len(sets), "objective"), plural(counts["examples"], "example"), (), sets
        )

    def page_sections(self) -> Iterator[tuple[str, str]]:
        """Yield some examples of each objective, as `inspect-shard` shows them."""
        shown = []
        for entry in self.config:
            shown.append(f"<h3>{escape(entry.set_label)}</h3>")
            shown += map(
                view_html, example_views(self.folder / entry.set_label / "train" / "manifest.json")
            )
        yield "Some examples of each objective", "".join(shown)

    def consumes(self, counts: CorruptCounts) -> Sequence[Consumed]:
        """Return the samples of each set, and their tokens; every variant takes all of them."""
        variants = {entry.set_label: entry.variants for entry in self.config}
        return [
            Consumed(
                f"{what} of {source}/{split}", amount, variants[label] if split == "train" else 1
            )
            for label, splits in counts.get("objectives", {}).items()
            for split, set_counts in splits.items()
            for source, read in set_counts.get("read", {}).items()
            for what, amount in cast(Mapping[str, int], read).items()
        ]

    def check(self, counts: CorruptCounts, *, complete: bool = True) -> None:
        """Check the equations, and that each set read all samples."""
        super().check(counts, complete=complete)
        for label, splits in counts.get("objectives", {}).items():
            for split, part in splits.items():
                for read in part.get("read", {}).values():
                    where = f"corrupt {label}/{split}"
                    require_equal(
                        where, "samples read", read["samples"], "samples_in", part["samples_in"]
                    )


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
