"""Passes of the stage `tasks`: one unit a file; then the manifests."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from clozeline.errors import ConfigurationError
from clozeline.files import file_hash
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output, add_counts, records, require_equal, require_written
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.shards import SetWriter, base_columns, feature_columns
from clozeline.pipeline.shards.layout import block_rows_of
from clozeline.pipeline.tasks.code_switching import CodeSwitchConfig, code_switch, read_dictionary
from clozeline.pipeline.tasks.counts import SplitCounts, TaskCounts
from clozeline.pipeline.tasks.group_split import exclude_overlaps, split_by_group
from clozeline.pipeline.tasks.readers import Rejected, TaskFacts, TaskFile, TaskItem, TaskReader
from clozeline.pipeline.tasks.readers._reader import TASK
from clozeline.pipeline.tasks.row_checks import check_rows, keys_of
from clozeline.pipeline.tasks.rows_by_head import ROW_TYPES
from clozeline.pipeline.tasks.similar_pairs import SimilarityConfig, SimilarPairs
from clozeline.pipeline.tasks.special_token_templates import FRAMES, FrameName
from clozeline.pipeline.tasks.task_rows import Form
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, load_tokenizer
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.recorded_file import check_files
from clozeline.registry import Chosen

_LOG: Final = logging.getLogger(__name__)
_DETAILS: Final = 3
"""Different contents of refused rows that a message shows."""
_SUMMED: Final = ("rows_in", "examples", "windows", "refused", "tokens", "truncated", "truncated_tokens")
"""Counts of splits that are also summed over all of them."""


@dataclass(frozen=True)
class SplitSource:
    """A split, and the file that holds it; `source` names the file, wherever it lies.

    Args:
        split: name of the split.
        source: of the file.
        path: of the file.
        carve: split to share of those that are taken from the file of `own`, this one perhaps among them.
        own: split of the rows of the file that no other one takes.
    """

    split: str
    source: str
    path: Path
    carve: Mapping[str, float] = field(default_factory=dict)
    own: str = ""

    @property
    def is_training(self) -> bool:
        """True for a split that models are trained on."""
        return is_training_split(self.split)


def is_training_split(split: str) -> bool:
    """Return whether models learn from a split: train, train_pseudo."""
    return split.partition("_")[0] == "train"


def open_reader(chosen: Chosen, similarity: SimilarityConfig | None, limits: Limits) -> TaskReader:
    """Return the reader of a task, of its pairs apart where these are to be compared.

    Raises:
        ConfigurationError: it reads no such pairs.
    """
    reader: TaskReader = chosen.build(limits)
    return reader if similarity is None else SimilarPairs(reader, similarity)


@dataclass(frozen=True)
class TaskSets(Pass[TaskCounts]):
    """The rows of one file to one shard."""

    units: int
    sources: tuple[SplitSource, ...]
    others: tuple[str, ...]
    reader: Chosen
    frame: FrameName
    max_length: int
    stride: int | None
    exclude: tuple[Path, ...]
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
        """Read, encode and write one split; a file without labels is counted and gives no set."""
        source = self.sources[unit]
        reader = self.open_reader()
        file = reader.open(source.path)
        form = Form(FRAMES[self.frame], self.max_length, self.stride)
        kind = ROW_TYPES[reader.facts.head, form.frame.architecture]
        rows = kind(reader.facts, form, self.open_tokenizer(), self.corpus, source.source)
        given = list(self.items(source, reader, file, rows.counts))
        notes = check_rows(given, None if source.is_training else self._learnt_keys(reader))
        items: Iterable[TaskItem | Rejected] = given
        if source.is_training and isinstance(reader, SimilarPairs):
            items = map(reader.select_for_training, items)
        if source.is_training and self.code_switch is not None:
            items = self._switched(items, self.code_switch, reader.facts)
        found = rows.rows(items)
        add_counts(rows.counts, {"notes": notes})
        output.inputs[source.source] = file_hash(source.path)
        if len(found):
            writer = self.writer(source.split, reader, rows.tokenizer.vocabulary)
            info = writer.write_shard(output, 0, found)
            counted = rows.counts["examples"], rows.counts["tokens"]
            require_written(f"tasks {source.split}", counted, (info.rows, info.tokens))
        elif file.layout.has_labels and rows.counts["refused"].keys() != {"no_label"}:
            raise ConfigurationError(f"{source.path}: no row of it is an example: {_reasons(given, rows.counts)}")
        else:
            _LOG.warning("tasks: %s has no labels (%s), so no set is made of it", source.path, file.layout.name)
        counts: TaskCounts = {"splits": {source.split: {**rows.counts, "layout": {file.layout.name: 1}}}}
        if unit == 0 and self.others:
            _LOG.warning("tasks: not read, no split by its name: %s", ", ".join(self.others))
            counts["files_left"] = dict.fromkeys(self.others, 1)
        return add_counts(counts, cast(TaskCounts, {key: rows.counts[key] for key in _SUMMED}))

    def items(
        self, source: SplitSource, reader: TaskReader, file: TaskFile, counts: SplitCounts
    ) -> Iterator[TaskItem | Rejected]:
        """Yield the rows of a split, those of its file that no other split takes; count all of the file, and those.

        Rows that share a text with excluded ones are refused.
        """
        items: Iterable[TaskItem | Rejected] = _all_rows(reader, file, counts)
        excluded = list(self.exclude)
        if self.disjoint and not source.is_training:
            excluded += [one.path for one in self.sources if one.is_training and one.path != source.path]
        if excluded:
            others = [one for path in excluded for one in _all_rows(reader, reader.open(path), {})]
            items = exclude_overlaps(items, (one for one in others if not isinstance(one, Rejected)))
        if not source.carve:
            yield from items
            return
        found = list(items)
        for item, split in zip(found, split_by_group(found, source.carve, source.own, self.seed), strict=True):
            if split == source.split:
                yield item
            else:
                add_counts(counts, {"rows_elsewhere": 1})

    def _learnt_keys(self, reader: TaskReader) -> Set[str] | None:
        """Return the keys of the rows that models learn from; None where there are no such splits."""
        training = [source for source in self.sources if source.is_training]
        rows = (item for source in training for item in self.items(source, reader, reader.open(source.path), {}))
        return keys_of(rows) if training else None

    def _switched(
        self, items: Iterable[TaskItem | Rejected], config: CodeSwitchConfig, facts: TaskFacts
    ) -> Iterator[TaskItem | Rejected]:
        dictionaries = [read_dictionary(path, self.limits) for path in config.dictionaries]
        return code_switch(items, config, dictionaries, facts, self.seed)

    def open_reader(self) -> TaskReader:
        """Return the reader of the task."""
        return open_reader(self.reader, self.similarity, self.limits)

    def open_tokenizer(self) -> Tokenizer:
        """Return the tokenizer that an earlier stage has published, after a check of its files."""
        check_files(self.tokenizer.parent, "000000", f"{self.tokenizer.name}/")
        return load_tokenizer(self.tokenizer)

    def writer(self, split: str, reader: TaskReader, vocabulary: Vocabulary) -> SetWriter:
        """Return the writer of one split."""
        frame = FRAMES[self.frame]
        kind = ROW_TYPES[reader.facts.head, frame.architecture]
        features = kind.features(reader.facts, frame)
        return SetWriter(
            path=f"{reader.facts.name}/{split}",
            shards=1,
            columns=[*base_columns(), *feature_columns(features, vocabulary.size)],
            block_rows=block_rows_of(
                "auto", features, self.max_length * kind.per_token, np.dtype(vocabulary.id_dtype).itemsize
            ),
            metadata={"task": f"{reader.facts.name}/{split}", "tokenizer": vocabulary.fingerprint},
        )


@dataclass(frozen=True)
class TaskManifests(Pass[TaskCounts]):
    """The manifests of all splits, when their shards are there."""

    sets: TaskSets
    seed: int
    name: str = "manifest"
    units: int = 1

    def run(self, unit: int, output: Output) -> TaskCounts:
        """Write the manifests from the records of the splits.

        Raises:
            ConfigurationError: no split has labels.
        """
        counts: TaskCounts = {}
        for record in records(output.folder, self.sets.name):
            add_counts(counts, record.counts)
        self._check_files(counts)
        made = {split: found for split, found in counts["splits"].items() if found["examples"]}
        if not made:
            raise ConfigurationError("tasks: no file of the input has labels")
        tokenizer = self.sets.open_tokenizer()
        for source in self.sets.sources:
            if source.split in made:
                self._write(source, made[source.split], tokenizer, output)
        return {}

    def _check_files(self, counts: TaskCounts) -> None:
        """Check that the splits of a file have each of its rows once."""
        splits = counts["splits"]
        for name in {source.source for source in self.sets.sources}:
            found = [splits[source.split] for source in self.sets.sources if source.source == name]
            if all("rows_read" in one for one in found):
                rows = sum(one["rows_in"] for one in found)
                require_equal(f"tasks: {name}", "rows of the file", found[0]["rows_read"], "rows of its splits", rows)

    def _write(self, source: SplitSource, counts: SplitCounts, tokenizer: Tokenizer, output: Output) -> None:
        work, reader, vocabulary = self.sets, self.sets.open_reader(), tokenizer.vocabulary
        facts, frame = reader.facts, FRAMES[work.frame]
        manifest = work.writer(source.split, reader, vocabulary).write_manifest(
            output, name=f"{facts.name}/{source.split}", kind="examples", seed=self.seed,
            tokenizer=_tokenizer_facts(tokenizer, work.tokenizer),
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
                    **{name: counts[name] for name in ("windows", "notes") if counts[name]}},
        )  # fmt: skip
        written = manifest.totals.samples, manifest.totals.tokens
        require_written(f"tasks {source.split}: manifest", (counts["examples"], counts["tokens"]), written)


def _all_rows(reader: TaskReader, file: TaskFile, counts: SplitCounts) -> Iterator[TaskItem | Rejected]:
    """Yield the rows of a file and count them; check at the end that they are all that it has."""
    counts["rows_read"] = 0
    for item in reader.read(file):
        counts["rows_read"] += 1
        yield item
    require_equal(f"tasks: {file.path}", "rows of the file", reader.row_count(file), "rows read", counts["rows_read"])


def _reasons(items: Iterable[TaskItem | Rejected], counts: SplitCounts) -> str:
    """Return why rows are refused: how many for each reason, and what the first ones hold."""
    details: dict[str, int] = {}
    for item in items:
        if isinstance(item, Rejected) and item.detail:
            details.setdefault(item.detail, item.index + 1)
    shown = [f"line {line}: {detail}" for detail, line in list(details.items())[:_DETAILS]]
    return "; ".join((", ".join(f"{count:,} {reason}" for reason, count in counts["refused"].items()), *shown))


def _tokenizer_facts(tokenizer: Tokenizer, folder: Path) -> dict[str, Any]:
    vocabulary = tokenizer.vocabulary
    return {
        "name": (folder / "name").read_text(encoding="utf-8").strip(),
        "fingerprint": vocabulary.fingerprint,
        "vocab_size": vocabulary.size,
        "special_ids": vocabulary.specials,
        "sentinels": list(vocabulary.sentinels),
    }
