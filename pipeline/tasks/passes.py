"""Passes of the stage `tasks`: write the set of each split, then the manifests."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from clozeline.errors import ConfigurationError
from clozeline.files import file_hash
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output, add_counts, require_written, total_counts
from clozeline.pipeline.ingest.formats.dictionaries import read_switcher
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.code_switching import code_switch
from clozeline.pipeline.tasks.config import TasksConfig
from clozeline.pipeline.tasks.counts import SplitCounts, TaskCounts
from clozeline.pipeline.tasks.group_split import exclude_overlaps, split_by_group
from clozeline.pipeline.tasks.readers import TASK, Rejected, TaskFile, TaskItem, TaskReader
from clozeline.pipeline.tasks.row_checks import check_rows, keys_of
from clozeline.pipeline.tasks.rows_by_head import ROW_TYPES, set_writer
from clozeline.pipeline.tasks.similar_pairs import SimilarPairs
from clozeline.pipeline.tasks.special_token_templates import FRAMES
from clozeline.pipeline.tasks.task_rows import Form
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, load_tokenizer, tokenizer_facts
from clozeline.recorded_file import check_files

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
    own: str
    """split of the rows of the file that `carve` gives to no other split; empty: a column names the splits"""

    @property
    def is_training(self) -> bool:
        """True for a split that models are trained on."""
        return is_training_split(self.split)


def is_training_split(split: str) -> bool:
    """Return whether models are trained on a split: train, train_pseudo."""
    return split.partition("_")[0] == "train"


def open_reader(config: TasksConfig, limits: Limits) -> TaskReader:
    """Return the reader of a task, wrapped in `SimilarPairs` for a similarity task."""
    reader: TaskReader = config.reader.build(limits)
    return reader if config.similarity is None else cast(TaskReader, SimilarPairs(reader, config.similarity))


@dataclass(frozen=True)
class TaskSets(Pass[TaskCounts]):
    """Write the rows of one split to one shard."""

    units: int
    sources: tuple[SplitSource, ...]
    others: tuple[str, ...]
    config: TasksConfig
    """options of the stage; those of the reader with what the files determine, such as the classes"""
    tokenizer: Path
    corpus: str
    seed: int
    limits: Limits
    language: str
    name: str = "main"

    @property
    def form(self) -> Form:
        """Special tokens and lengths of the rows."""
        return Form(FRAMES[self.config.frame], self.config.max_length, self.config.stride)

    def run(self, unit: int, output: Output) -> TaskCounts:
        """Read, encode and write one split; a file without labels is counted and writes no set."""
        source, form, config = self.sources[unit], self.form, self.config
        reader = open_reader(config, self.limits)
        file = reader.open(source.path)
        row_type = ROW_TYPES[reader.facts.head, form.frame.architecture]
        builder = row_type(reader.facts, form, self.open_tokenizer(), self.corpus, source.source)
        read = list(self.items(source, reader, file))
        training = [other for other in self.sources if other.is_training]
        learned = (item for other in training for item in self.items(other, reader, reader.open(other.path)))
        notes = check_rows(read, None if source.is_training or not training else keys_of(learned))
        items: Iterable[TaskItem | Rejected] = read
        if source.is_training and isinstance(reader, SimilarPairs):
            items = map(reader.select_for_training, items)
        if source.is_training and config.code_switch is not None:
            switcher = read_switcher(config.code_switch, self.limits, self.seed, "tasks")
            items = code_switch(items, switcher, reader.facts)
        rows = builder.rows(reader.complete(items, builder.tokenizer))
        counts = builder.counts
        add_counts(counts, {"notes": notes})
        if len(rows) and (shown := _details(builder.rejected, reader.unit)):
            _LOG.warning("tasks: %s: rejected rows: %s", source.path, "; ".join(shown))
        output.inputs[source.source] = file_hash(source.path)
        if len(rows):
            writer = set_writer(reader.facts, source.split, form, builder.tokenizer.vocabulary)
            info = writer.write_shard(output, 0, rows)
            require_written(f"tasks {source.split}", (counts["examples"], counts["tokens"]), (info.rows, info.tokens))
        elif file.has_labels and counts["refused"].keys() != {"no_label"}:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in counts["refused"].items())
            shown = [reasons or "it has no rows", *_details(builder.rejected, reader.unit)]
            raise ConfigurationError(f"{source.path}: no row of it is an example: {'; '.join(shown)}")
        else:
            _LOG.warning("tasks: %s has no labels (%s), so no set is made of it", source.path, file.layout)
        sums: TaskCounts = {"splits": {source.split: {**counts, "layout": {file.layout: 1}}}}
        if unit == 0 and self.others:
            _LOG.warning("tasks: not read, no split by its name: %s", ", ".join(self.others))
            sums["files_left"] = dict.fromkeys(self.others, 1)
        return add_counts(sums, cast(TaskCounts, {key: counts[key] for key in _TOTALS}))

    def items(self, source: SplitSource, reader: TaskReader, file: TaskFile) -> Iterator[TaskItem | Rejected]:
        """Yield the rows of a split, of which excluded ones are rejected."""
        config, rows = self.config, list(reader.read(file))
        splits = [source.own] * len(rows) if source.own else list(reader.row_splits(file))
        known = [item for path in config.exclude for item in reader.read(reader.open(path))]
        for other in self.sources if config.disjoint and not source.is_training else ():
            if other.is_training and other.path != source.path:
                known += reader.read(reader.open(other.path))
            elif other.is_training and not source.own:
                known += (item for item, split in zip(rows, splits, strict=True) if split == other.split)
        if known:
            known_items = (item for item in known if not isinstance(item, Rejected))
            rows = exclude_overlaps(rows, known_items, config.exclude_ngram)
        if config.carve and source.own == "train":
            splits = split_by_group(rows, config.carve, source.own, self.seed)
        yield from (item for item, split in zip(rows, splits, strict=True) if split == source.split)

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
        if not any(split["examples"] for split in splits.values()):
            raise ConfigurationError("tasks: no file of the input has labels")
        tokenizer = self.sets.open_tokenizer()
        for source in self.sets.sources:
            if splits[source.split]["examples"]:
                self._write(source, splits[source.split], tokenizer, output)
        return {}

    def _write(self, source: SplitSource, counts: SplitCounts, tokenizer: Tokenizer, output: Output) -> None:
        work, vocabulary, config = self.sets, tokenizer.vocabulary, self.sets.config
        facts, frame = open_reader(config, work.limits).facts, work.form.frame
        writer = set_writer(facts, source.split, work.form, vocabulary)
        manifest = writer.write_manifest(
            output, name=f"{facts.name}/{source.split}", kind="examples", seed=self.seed,
            tokenizer=tokenizer_facts(work.tokenizer, vocabulary),
            totals={"tokens_by_language": {work.language: counts["tokens"]}, "skipped": counts["refused"]},
            objective={
                "name": TASK, "label": facts.name, "architecture": frame.architecture, "heads": [facts.head],
                "options": {TASK: facts.plain(), "split": source.split, "frame": config.frame,
                            "max_length": config.max_length},
                "frame": frame.facts(vocabulary),
            },
            languages=[work.language],
            parents=[{"name": work.tokenizer.parent.name, "digest": vocabulary.fingerprint, "role": "tokenizer"}],
            config={"reader": config.reader.plain(), "source": source.source, "layout": next(iter(counts["layout"])),
                    "rows_in": counts["rows_in"], "truncated": counts["truncated"],
                    "truncated_tokens": counts["truncated_tokens"], "examples_by_label": counts["labels"],
                    **({} if config.stride is None else {"stride": config.stride}),
                    **{name: counts[name] for name in ("windows", "notes") if counts[name]}},
        )  # fmt: skip
        written = manifest.totals.samples, manifest.totals.tokens
        require_written(f"tasks {source.split}: manifest", (counts["examples"], counts["tokens"]), written)


def _details(items: Iterable[Rejected], unit: str) -> list[str]:
    """Return the first different details of rejected rows, each with its line or row."""
    details: dict[str, int] = {}
    for item in items:
        if item.detail:
            details.setdefault(item.detail, item.index + 1)
    return [f"{unit} {number}: {detail}" for detail, number in list(details.items())[:_DETAILS]]
