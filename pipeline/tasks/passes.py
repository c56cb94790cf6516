"""Passes of the stage `tasks`: write the set of each split, then the manifests."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from clozeline.errors import ConfigurationError
from clozeline.files import file_hash
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output, add_counts, require_equal, require_written, total_counts
from clozeline.pipeline.ingest.formats.dictionaries import read_switcher
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.code_switching import code_switch
from clozeline.pipeline.tasks.config import FrameName, SimilarityConfig
from clozeline.pipeline.tasks.counts import SplitCounts, TaskCounts
from clozeline.pipeline.tasks.group_split import exclude_overlaps, split_by_group
from clozeline.pipeline.tasks.readers import TASK, Rejected, TaskFile, TaskItem, TaskReader
from clozeline.pipeline.tasks.row_checks import check_rows, keys_of
from clozeline.pipeline.tasks.rows_by_head import ROW_TYPES, set_writer
from clozeline.pipeline.tasks.similar_pairs import SimilarPairs
from clozeline.pipeline.tasks.special_token_templates import FRAMES
from clozeline.pipeline.tasks.task_rows import Form
from clozeline.pipeline.text.code_switch_config import CodeSwitchConfig
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, load_tokenizer, tokenizer_facts
from clozeline.recorded_file import check_files
from clozeline.registry import Chosen

_LOG: Final = logging.getLogger(__name__)
_DETAILS: Final = 3
"""Different rejected rows that an error message shows."""
_TOTALS: Final = ("rows_in", "examples", "windows", "refused", "tokens", "truncated", "truncated_tokens")
"""Counts that are also summed over the splits."""


@dataclass(frozen=True)
class SplitSource:
    """A split and the file that holds it."""

    split: str
    source: str
    """name of the file, independent of its folder"""
    path: Path
    carve: Mapping[str, float] = field(default_factory=dict)
    """shares of the file's rows that go to other splits, possibly including this one"""
    own: str = ""
    """split of the remaining rows of the file"""
    in_column: bool = False
    """true if the rows of the file name their split"""

    @property
    def is_training(self) -> bool:
        """True for a split that models are trained on."""
        return is_training_split(self.split)


def is_training_split(split: str) -> bool:
    """Return whether models are trained on a split: train, train_pseudo."""
    return split.partition("_")[0] == "train"


def open_reader(chosen: Chosen, similarity: SimilarityConfig | None, limits: Limits) -> TaskReader:
    """Return the reader of a task, wrapped in `SimilarPairs` for a similarity task."""
    reader: TaskReader = chosen.build(limits)
    return reader if similarity is None else SimilarPairs(reader, similarity)


@dataclass(frozen=True)
class TaskSets(Pass[TaskCounts]):
    """Write the rows of one split to one shard."""

    units: int
    sources: tuple[SplitSource, ...]
    others: tuple[str, ...]
    reader: Chosen
    frame: FrameName
    max_length: int
    stride: int | None
    exclude: tuple[Path, ...]
    exclude_ngram: int | None
    disjoint: bool
    code_switch: CodeSwitchConfig | None
    similarity: SimilarityConfig | None
    tokenizer: Path
    corpus: str
    seed: int
    limits: Limits
    language: str
    name: str = "main"

    def run(self, unit: int, output: Output) -> TaskCounts:
        """Read, encode and write one split; a file without labels is counted and writes no set."""
        source = self.sources[unit]
        reader = open_reader(self.reader, self.similarity, self.limits)
        file = reader.open(source.path)
        form = Form(FRAMES[self.frame], self.max_length, self.stride)
        row_type = ROW_TYPES[reader.facts.head, form.frame.architecture]
        builder = row_type(reader.facts, form, self.open_tokenizer(), self.corpus, source.source)
        read = list(self.items(source, reader, file, builder.counts))
        training = [other for other in self.sources if other.is_training]
        learned = (item for other in training for item in self.items(other, reader, reader.open(other.path), {}))
        notes = check_rows(read, None if source.is_training or not training else keys_of(learned))
        items: Iterable[TaskItem | Rejected] = read
        if source.is_training and isinstance(reader, SimilarPairs):
            items = map(reader.select_for_training, items)
        if source.is_training and self.code_switch is not None:
            switcher = read_switcher(self.code_switch, self.limits, self.seed, "tasks")
            items = code_switch(items, switcher, reader.facts)
        rejected: list[Rejected] = []
        rows = builder.rows(_note_rejected(reader.complete(items, builder.tokenizer), rejected))
        add_counts(builder.counts, {"notes": notes})
        if len(rows) and (shown := _details(rejected, reader.unit)):
            _LOG.warning("tasks: %s: rejected rows: %s", source.path, "; ".join(shown))
        output.inputs[source.source] = file_hash(source.path)
        if len(rows):
            writer = set_writer(reader.facts, source.split, form, builder.tokenizer.vocabulary)
            info = writer.write_shard(output, 0, rows)
            counted = builder.counts["examples"], builder.counts["tokens"]
            require_written(f"tasks {source.split}", counted, (info.rows, info.tokens))
        elif file.has_labels and builder.counts["refused"].keys() != {"no_label"}:
            reasons = _reasons(rejected, builder.counts, reader.unit)
            raise ConfigurationError(f"{source.path}: no row of it is an example: {reasons}")
        else:
            _LOG.warning("tasks: %s has no labels (%s), so no set is made of it", source.path, file.layout)
        counts: TaskCounts = {"splits": {source.split: {**builder.counts, "layout": {file.layout: 1}}}}
        if unit == 0 and self.others:
            _LOG.warning("tasks: not read, no split by its name: %s", ", ".join(self.others))
            counts["files_left"] = dict.fromkeys(self.others, 1)
        return add_counts(counts, cast(TaskCounts, {key: builder.counts[key] for key in _TOTALS}))

    def items(
        self, source: SplitSource, reader: TaskReader, file: TaskFile, counts: SplitCounts
    ) -> Iterator[TaskItem | Rejected]:
        """Yield the rows of a split, counting all rows of its file and rejecting excluded ones."""
        items: Iterable[TaskItem | Rejected] = _all_rows(reader, file, counts)
        excluded = list(self.exclude)
        if self.disjoint and not source.is_training:
            excluded += [other.path for other in self.sources if other.is_training and other.path != source.path]
        if source.in_column:
            items = self._rows_of_split(source.split, items, reader, file, counts)
        if excluded or (self.disjoint and source.in_column and not source.is_training):
            others = [item for path in excluded for item in _all_rows(reader, reader.open(path), {})]
            for other in self.sources:  # splits of the same file
                if self.disjoint and source.in_column and other.is_training:
                    others += self._rows_of_split(other.split, reader.read(file), reader, file, {})
            known = (item for item in others if not isinstance(item, Rejected))
            items = exclude_overlaps(items, known, self.exclude_ngram)
        if not source.carve:
            yield from items
            return
        rows = list(items)
        for item, split in zip(rows, split_by_group(rows, source.carve, source.own, self.seed), strict=True):
            if split == source.split:
                yield item
            else:
                add_counts(counts, {"rows_elsewhere": 1})

    def _rows_of_split(
        self, split: str, items: Iterable[TaskItem | Rejected], reader: TaskReader, file: TaskFile, counts: SplitCounts
    ) -> Iterator[TaskItem | Rejected]:
        """Yield the rows whose column names the split, and count the others."""
        for item, own in zip(items, reader.row_splits(file), strict=True):
            if own == split:
                yield item
            else:
                add_counts(counts, {"rows_elsewhere": 1})

    def open_tokenizer(self) -> Tokenizer:
        """Load the tokenizer published by an earlier stage, after checking its files."""
        check_files(self.tokenizer.parent, "000000", f"{self.tokenizer.name}/")
        return load_tokenizer(self.tokenizer)


@dataclass(frozen=True)
class TaskManifests(Pass[TaskCounts]):
    """Write the manifests of all splits from the records of their shards."""

    sets: TaskSets
    seed: int
    name: str = "manifest"
    units: int = 1

    def run(self, unit: int, output: Output) -> TaskCounts:
        """Write the manifests; ConfigurationError if no split has labels."""
        counts: TaskCounts = total_counts(output.folder, self.sets.name)
        splits = counts["splits"]
        # each row of a file belongs to exactly one split
        for name in {source.source for source in self.sets.sources}:
            parts = [splits[source.split] for source in self.sets.sources if source.source == name]
            if all("rows_read" in part for part in parts):
                rows = sum(part["rows_in"] for part in parts)
                require_equal(f"tasks: {name}", "rows of the file", parts[0]["rows_read"], "rows of its splits", rows)
        if not any(split["examples"] for split in splits.values()):
            raise ConfigurationError("tasks: no file of the input has labels")
        tokenizer = self.sets.open_tokenizer()
        for source in self.sets.sources:
            if splits[source.split]["examples"]:
                self._write(source, splits[source.split], tokenizer, output)
        return {}

    def _write(self, source: SplitSource, counts: SplitCounts, tokenizer: Tokenizer, output: Output) -> None:
        work, vocabulary = self.sets, tokenizer.vocabulary
        facts, frame = open_reader(work.reader, work.similarity, work.limits).facts, FRAMES[work.frame]
        writer = set_writer(facts, source.split, Form(frame, work.max_length, work.stride), vocabulary)
        manifest = writer.write_manifest(
            output, name=f"{facts.name}/{source.split}", kind="examples", seed=self.seed,
            tokenizer=tokenizer_facts(work.tokenizer, vocabulary),
            totals={"tokens_by_language": {work.language: counts["tokens"]}, "skipped": counts["refused"]},
            objective={
                "name": TASK, "label": facts.name, "architecture": frame.architecture, "heads": [facts.head],
                "options": {TASK: facts.plain(), "split": source.split, "frame": work.frame,
                            "max_length": work.max_length},
                "frame": frame.facts(vocabulary),
            },
            languages=[work.language],
            parents=[{"name": work.tokenizer.parent.name, "digest": vocabulary.fingerprint, "role": "tokenizer"}],
            config={"reader": work.reader.plain(), "source": source.source, "layout": next(iter(counts["layout"])),
                    "rows_in": counts["rows_in"], "truncated": counts["truncated"],
                    "truncated_tokens": counts["truncated_tokens"], "examples_by_label": counts["labels"],
                    **({} if work.stride is None else {"stride": work.stride}),
                    **{name: counts[name] for name in ("windows", "notes") if counts[name]}},
        )  # fmt: skip
        written = manifest.totals.samples, manifest.totals.tokens
        require_written(f"tasks {source.split}: manifest", (counts["examples"], counts["tokens"]), written)


def _all_rows(reader: TaskReader, file: TaskFile, counts: SplitCounts) -> Iterator[TaskItem | Rejected]:
    """Yield the rows of a file and count them."""
    counts["rows_read"] = 0
    for item in reader.read(file):
        counts["rows_read"] += 1
        yield item


def _note_rejected(items: Iterable[TaskItem | Rejected], rejected: list[Rejected]) -> Iterator[TaskItem | Rejected]:
    for item in items:
        if isinstance(item, Rejected):
            rejected.append(item)
        yield item


def _reasons(items: Iterable[Rejected], counts: SplitCounts, unit: str) -> str:
    """Return the number of rejected rows per reason, and the first details."""
    rejected = ", ".join(f"{count:,} {reason}" for reason, count in counts["refused"].items()) or "it has no rows"
    return "; ".join((rejected, *_details(items, unit)))


def _details(items: Iterable[Rejected], unit: str) -> list[str]:
    """Return the first different details of rejected rows, each with its line or row."""
    details: dict[str, int] = {}
    for item in items:
        if item.detail:
            details.setdefault(item.detail, item.index + 1)
    return [f"{unit} {number}: {detail}" for detail, number in list(details.items())[:_DETAILS]]
