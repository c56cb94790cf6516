"""Turn labeled data into task sets, one per split, with classes and metrics in their manifests."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, cast

from clozeline.errors import ConfigurationError, plural
from clozeline.extensions.tasks.readers import TASK, Rejected, TaskItem, TaskMetadata, TaskReader
from clozeline.extensions.tasks.registries import TASK_ROWS
from clozeline.extensions.tasks.rows import rows_of
from clozeline.extensions.tasks.sets.config import TasksConfig
from clozeline.extensions.tasks.sets.splits import (
    SHOWN_NOTES,
    check_rows,
    exclude_overlaps,
    keys_of,
    split_by_group,
    split_files,
)
from clozeline.extensions.tasks.sets.task_rows import FRAMES, Form, SplitCounts, TaskCounts
from clozeline.extensions.tasks.sets.training_items import (
    check_switched_head,
    code_switch,
    pair_metadata,
    reject_negative,
    to_pair,
)
from clozeline.pipeline.execution.equations import EACH, Equation, StageRow
from clozeline.pipeline.execution.inputs import SourceFile, source_files
from clozeline.pipeline.execution.stages import Pass, Stage, Unit, tokenizer_stage
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import Output, add_counts, require_written
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.tables.dictionaries import read_switcher
from clozeline.pipeline.tokenize.stage_files import open_tokenizer
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer, tokenizer_metadata
from clozeline.pipeline.tokenize.tokenizers._tokenizer import VOCABULARY_FILE
from clozeline.pipeline.tokenize.unknown_text import UnknownShares, UnknownText
from clozeline.pipeline.vocabulary import Vocabulary

_VERSION: Final = 5
_LOG: Final = logging.getLogger(__name__)
_MOST_DETAILS: Final = 3
"""Most details, such as rejected rows or missing classes, that an error message shows."""


def _is_training(split: str) -> bool:
    """Return whether a split is a training split: train, train_pseudo."""
    return split.partition("_")[0] == "train"


def task_metadata(config: TasksConfig, reader: TaskReader) -> TaskMetadata:
    """Return the metadata of the task, after the configuration has changed it."""
    if config.similarity is not None:
        return pair_metadata(reader.metadata, config.similarity.positive)
    return replace(reader.metadata, both_orders=config.both_orders)


@dataclass(frozen=True)
class SplitSource:
    """A split and its file; a split of `split_off` is a share of the training file."""

    split: str
    source: str
    """name of the file, independent of its folder"""
    path: Path = field(compare=False)
    others: tuple[str, ...] = ()
    """names of further files that are read with it"""


@dataclass(frozen=True)
class TaskSet(Unit[TaskCounts]):
    """Write the rows of one split to one shard."""

    VERSION = _VERSION
    source: SplitSource
    training: tuple[SplitSource, ...]
    """training splits, with whose rows those of other splits are compared"""
    others: tuple[str, ...]
    """files that are no split; the first split counts them"""
    config: TasksConfig
    """options of the stage; the options of the reader include what the files determine, such as the
    classes"""
    corpus: str
    seed: int
    limits: InputLimits
    language: str

    @property
    def form(self) -> Form:
        """Special tokens and lengths of the rows."""
        return Form(FRAMES[self.config.frame], self.config.max_length, self.config.stride)

    def run(self, inputs: UnitInputs, output: Output) -> TaskCounts:
        """Read, encode and write one split.

        A file without labels is counted, but no set is written.
        """
        source = self.source
        form = self.form
        config = self.config
        reader = config.build_reader(self.limits)
        metadata = task_metadata(config, reader)
        is_training = _is_training(source.split)
        file = reader.open(inputs.user_file(source.path))
        row_type = rows_of(metadata.head, form.frame.architecture)
        tokenizer = load_tokenizer(open_tokenizer(inputs))
        builder = row_type(metadata, form, tokenizer, self.corpus, source.source)

        # compare the rows with the training rows
        read = self.read(source, reader, inputs)
        training_keys: set[str] | None = None

        if not is_training and self.training:
            training_keys = set()
            for other in self.training:
                training_keys |= keys_of(self.read(other, reader, inputs))

        if config.disjoint and training_keys is not None:
            read = exclude_overlaps(read, training_keys)
        notes = check_rows(read, training_keys)

        # change the training rows
        items: Iterable[TaskItem | Rejected] = read
        if is_training and config.similarity is not None:
            items = (reject_negative(item, metadata) for item in items)
        if is_training and config.code_switch is not None:
            for path in config.code_switch.dictionaries:
                inputs.user_file(path)
            switcher = read_switcher(config.code_switch, self.limits, self.seed, "tasks")
            items = code_switch(items, switcher, metadata)

        # encode the rows
        unknown = UnknownText(builder.tokenizer)
        rows = builder.rows(
            reader.complete(items, builder.tokenizer), partial(unknown.add, self.language)
        )
        counts = builder.counts
        details = _details(builder.rejected, reader.unit)
        add_counts(counts, {"notes": notes})
        shares = UnknownShares.of(unknown.counts())
        if shares.share:
            add_counts(counts, cast(SplitCounts, unknown.counts()))
        if shares.is_noticed():
            _LOG.warning("tasks: %s: %s", source.path, shares.message())

        if len(rows):
            if details:
                _LOG.warning("tasks: %s: rejected rows: %s", source.path, "; ".join(details))
            writer = row_type.writer(metadata, source.split, form, builder.tokenizer.vocabulary)
            writer.write_shard(output, 0, rows)
        elif counts["refused"].keys() == {"no_label"}:
            _LOG.warning(
                "tasks: %s has no labels (%s), so no set is written", source.path, file.layout
            )
        else:
            reasons = [f"{count:,} {reason}" for reason, count in counts["refused"].items()]
            if not reasons and self.config.split_off:
                reasons = [
                    f"none of its rows fell into {source.split}; raise its share in "
                    "tasks.split_off, or give a file of this split"
                ]
            shown = "; ".join([", ".join(reasons) or "it has no rows", *details])
            raise ConfigurationError(f"{source.path}: none of its rows is an example: {shown}")

        sums: TaskCounts = {"splits": {source.split: {**counts, "layout": {file.layout: 1}}}}

        if self.others:
            _LOG.warning(
                "tasks: files that are not a split by their names are not read: %s",
                ", ".join(self.others),
            )
            sums["files_left"] = dict.fromkeys(self.others, 1)

        return sums

    def read(
        self, source: SplitSource, reader: TaskReader, inputs: UnitInputs
    ) -> list[TaskItem | Rejected]:
        """Return the rows of a split."""
        file = reader.open(inputs.user_file(source.path))
        for other in file.others:
            inputs.user_file(other)
        items = reader.read(file)
        similarity = self.config.similarity
        shares = self.config.split_off
        if similarity is not None:
            items = (to_pair(item, reader.metadata, similarity.positive) for item in items)
        rows = list(items)
        if shares and (source.split == "train" or source.split in shares):
            splits = split_by_group(rows, shares, "train", self.seed)
            rows = [item for item, split in zip(rows, splits, strict=True) if split == source.split]
        return rows


@dataclass(frozen=True)
class TaskManifests(Unit[TaskCounts]):
    """Write the manifests of all splits from the records of their shards."""

    VERSION = _VERSION
    sets: tuple[TaskSet, ...]
    tokenizer_stage: str

    def run(self, inputs: UnitInputs, output: Output) -> TaskCounts:
        """Write the manifests; ConfigurationError if no split has labels."""
        counts: TaskCounts = inputs.sum_counts("tasks", "main")
        splits = counts["splits"]
        if not any(split["examples"] for split in splits.values()):
            raise ConfigurationError("tasks: no file of the input has labels")
        config = self.sets[0].config
        for line in _missing_classes(splits, ("train", *config.split_off)):
            _LOG.warning("tasks: %s", line)
        folder = open_tokenizer(inputs)
        vocabulary = Vocabulary.load(folder / VOCABULARY_FILE)
        described = tokenizer_metadata(folder, vocabulary)
        for work in self.sets:
            if (of_split := splits[work.source.split])["examples"]:
                self._write(work, of_split, vocabulary, described, inputs, output)
        return {}

    def _write(
        self,
        work: TaskSet,
        counts: SplitCounts,
        vocabulary: Vocabulary,
        described: Mapping[str, Any],
        inputs: UnitInputs,
        output: Output,
    ) -> None:
        config = work.config
        source = work.source
        metadata = task_metadata(config, config.build_reader(work.limits))
        frame = work.form.frame
        rows = rows_of(metadata.head, frame.architecture)
        writer = rows.writer(metadata, source.split, work.form, vocabulary)
        if not rows.generated:
            frame = frame.without_pad(vocabulary.specials)

        manifest = writer.write_manifest(
            output,
            lambda _, name: inputs.file("tasks", "main", source.split, name).text(),
            name=f"{metadata.name}/{source.split}",
            kind="examples",
            seed=work.seed,
            tokenizer=described,
            totals={
                "tokens_by_language": {work.language: counts["tokens"]},
                "skipped": counts["refused"],
            },
            objective={
                "name": TASK,
                "label": metadata.name,
                "architecture": frame.architecture,
                "heads": [metadata.head],
                "options": {
                    TASK: metadata.as_dict(),
                    "split": source.split,
                    "frame": config.frame,
                    "max_length": config.max_length,
                },
                "frame": frame.row_form(vocabulary, config.max_length).model_dump(),
            },
            languages=[work.language],
            parents=[
                {
                    "name": self.tokenizer_stage,
                    "digest": vocabulary.fingerprint,
                    "role": "tokenizer",
                }
            ],
            config={
                "reader": config.reader.as_dict(),
                "source": source.source,
                "layout": next(iter(counts["layout"])),
                "rows_in": counts["rows_in"],
                "truncated": counts["truncated"],
                "truncated_tokens": counts["truncated_tokens"],
                "examples_by_label": counts["labels"],
                **({} if config.stride is None else {"stride": config.stride}),
                **({} if config.normalize == "prose" else {"normalize": config.normalize}),
                **{name: counts[name] for name in ("windows", "notes") if counts[name]},
            },
        )

        require_written("tasks", counts["examples"], counts["tokens"], manifest)


def _names_of(paths: Iterable[Path]) -> tuple[str, ...]:
    return tuple(f"{path.parent.name}/{path.name}" for path in paths)


def _missing_classes(
    splits: Mapping[str, SplitCounts], of_training: Iterable[str]
) -> Iterator[str]:
    """Yield a line for each split of the training file that lacks a class of another split."""
    known: set[str] = set()
    for counts in splits.values():
        known.update(label for label, count in counts["labels"].items() if count)

    for split in of_training:
        if split not in splits or not splits[split]["examples"]:
            continue
        labels = splits[split]["labels"]
        missing = sorted(label for label in known if not labels.get(label))
        if missing:
            shown = ", ".join(missing[:_MOST_DETAILS])
            yield (
                f"{split} has no row of {shown}{' …' if len(missing) > _MOST_DETAILS else ''}: "
                "give more rows, another share in tasks.split_off, or a file for each split"
            )


def _details(items: Iterable[Rejected], unit: str) -> list[str]:
    """Return the first different details of rejected rows, each with its line or row."""
    details: dict[str, int] = {}
    for item in items:
        if item.detail:
            details.setdefault(item.detail, item.index + 1)
    return [
        f"{unit} {number}: {detail}" for detail, number in list(details.items())[:_MOST_DETAILS]
    ]


_ROW_EQUATION: Final = Equation(
    ["rows_in", "windows"], ["examples", "refused"], unit="row", within=("splits", EACH)
)
"""Each row, or window of a row, became an example or was rejected for a reason."""


class TasksStage(Stage[TasksConfig, TaskCounts]):
    """Writes one set per split: `tasks/sst2/train`, `tasks/sst2/dev`."""

    name = "tasks"
    after = ("corrupt",)
    in_heldout = True
    cpu_seconds_per_mb = 2.5
    equations = (_ROW_EQUATION,)

    @cached_property
    def _files(self) -> tuple[dict[str, SourceFile], tuple[SourceFile, ...]]:
        """The file of each split, and the other files."""
        if not self.recipe.input:
            raise ConfigurationError(
                "tasks: no input: add input=FOLDER with files named train, dev and test"
            )
        reader = self.config.build_reader(self.recipe.limits)
        return split_files(source_files(self.recipe.input, self.recipe.output), reader)

    @cached_property
    def _complete_config(self) -> TasksConfig:
        """The configuration, with reader options that the files determine, such as the classes."""
        reader = self.config.build_reader(self.recipe.limits)
        options = reader.complete_options(
            {split: file.local_path for split, file in self._files[0].items()}
        )
        return replace(self.config, reader=replace(self.config.reader, options=options))

    def validate(self) -> Iterator[str]:
        """Yield the mistakes: missing files of a split, a missing tokenizer or special token."""
        splits, _ = self._files
        self.config.check_tokens(tokenizer_stage(self.recipe).expected_tokenizer().vocabulary)
        config = self._complete_config
        frame = FRAMES[config.frame]
        metadata = task_metadata(config, config.build_reader(self.recipe.limits))
        head = metadata.head
        switch = self.config.code_switch
        if switch is not None:
            check_switched_head(metadata)
            read_switcher(switch, self.recipe.limits, self.recipe.seed, self.name)
        # published sets that a run without their files would remove
        inputs = ", ".join(str(entry.path) for entry in self.recipe.input)

        for manifest in sorted((self.folder / metadata.name).glob("*/manifest.json")):
            if (split := manifest.parent.name) not in {*splits, *self.config.split_off}:
                yield (
                    f"tasks: no file of input={inputs} is the split '{split}', which was published "
                    f"before: give the file again, or remove {manifest.parent}"
                )

        rows = TASK_ROWS.load_class(head)
        ordered = rows.has_both_orders and metadata.texts > 1 and not metadata.multi_label
        if config.both_orders and not ordered:
            yield (
                "tasks.both_orders: expected pairs with one class or a score, got the task "
                f"{metadata.name}: remove it"
            )

        if rows.for_architecture(frame.architecture) is None:
            fit = [
                name for name, other in FRAMES.items() if rows.for_architecture(other.architecture)
            ]
            yield (
                f"tasks.frame: the task is for the head {head}, but {self.config.frame} is a "
                f"template for an {frame.architecture}: expected {', '.join(fit)}"
            )

    def passes(self) -> Sequence[Pass[TaskCounts]]:
        splits, others = self._files
        shares = self.config.split_off
        recipe = self.recipe

        if shares and ("train" not in splits or not splits.keys().isdisjoint(shares)):
            raise ConfigurationError(
                f"tasks.split_off: expected a file of train and none of {', '.join(shares)}, got "
                f"files of {', '.join(splits)}: remove a file, or the key"
            )

        files = [*splits.items(), *((split, splits["train"]) for split in shares)]
        reader = self.config.build_reader(recipe.limits)
        sources = tuple(
            SplitSource(split, file.source, path, _names_of(reader.open(path).others))
            for split, file in files
            for path in [file.local_path]
        )
        languages = {entry.language or "und" for entry in recipe.input}
        if len(languages) > 1:
            raise ConfigurationError(
                f"tasks: expected one language for all inputs, got {', '.join(sorted(languages))}"
            )

        language = languages.pop()
        training = tuple(source for source in sources if _is_training(source.split))
        left = tuple(file.source for file in others)
        sets = tuple(
            TaskSet(
                source,
                () if _is_training(source.split) else training,
                () if number else left,
                self._complete_config,
                recipe.corpus,
                recipe.seed,
                recipe.limits,
                language,
            )
            for number, source in enumerate(sources)
        )
        manifests = TaskManifests(sets, tokenizer_stage(recipe).name)
        return [
            Pass("main", {each.source.split: each for each in sets}),
            Pass("manifest", {"000000": manifests}, lists_units=True),
        ]

    def row(self, counts: TaskCounts) -> StageRow:
        """Return rows, examples and truncation, in total and per split."""
        parts = tuple((split, _row(part)) for split, part in counts["splits"].items())
        total: SplitCounts = {}
        for part in counts["splits"].values():
            add_counts(total, part)
        row = replace(_row(total), parts=parts if len(parts) > 1 else ())
        if not (long := total["truncated"]):
            return row
        length = self.config.max_length
        note = (
            f"{long:,} of {plural(total['examples'], 'example')} are longer than {length} tokens: "
            f"tasks.max_length={2 * length} keeps more of them"
        )
        return replace(row, notes=(*row.notes, note))


def _row(counts: SplitCounts) -> StageRow:
    windows = (
        f"\n{counts['windows']:,} of them further windows of a row" if counts["windows"] else ""
    )
    notes = counts.get("notes", {})
    shown = [f"{notes[name]:,} {name.replace('_', ' ')}" for name in SHOWN_NOTES if notes.get(name)]

    out = "\n".join(
        (
            f"{plural(counts['examples'], 'example')}{windows}",
            f"{counts['tokens']:,} tokens",
            *shown,
        )
    )

    cut = {f"cut off {plural(counts['truncated'], 'example')}": counts["truncated_tokens"]}
    row = StageRow.of(counts, [_ROW_EQUATION], plural(counts["rows_in"], "row"), out)
    unknown = ("unknown character", counts.get("unknown_reasons", {}))
    notes_below = tuple(filter(None, [UnknownShares.of(counts).summary()]))
    return replace(row, dropped=(*row.dropped, ("token", cut), unknown), notes=notes_below)
