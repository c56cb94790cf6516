"""Turn labeled data into task sets, with classes and metrics in the manifest."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

from clozeline.errors import ConfigurationError
from clozeline.files import file_hash
from clozeline.pipeline.execution.inputs import SourceFile, source_files
from clozeline.pipeline.execution.stages import Pass, Row, Stage, amount, tokenizer_stage
from clozeline.pipeline.execution.unit_record import require_equal
from clozeline.pipeline.ingest.formats.dictionaries import read_switcher
from clozeline.pipeline.tasks.code_switching import check_switched_head
from clozeline.pipeline.tasks.config import TasksConfig
from clozeline.pipeline.tasks.counts import SplitCounts, TaskCounts
from clozeline.pipeline.tasks.passes import SplitSource, TaskManifests, TaskSets, is_training_split, open_reader
from clozeline.pipeline.tasks.readers import TaskReader
from clozeline.pipeline.tasks.row_checks import SHOWN_NOTES
from clozeline.pipeline.tasks.rows_by_head import ROW_TYPES
from clozeline.pipeline.tasks.special_token_templates import FRAMES
from clozeline.pipeline.tasks.split_files import is_first_part, split_files
from clozeline.seeding import hash64

_VERSION = 2


class TasksStage(Stage[TasksConfig, TaskCounts]):
    """Writes one set per split: `tasks/sst2/train`, `tasks/sst2/dev`."""

    name: ClassVar[str] = "tasks"
    shared: ClassVar[tuple[str, ...]] = ("seed", "corpus", "limits")

    def _files(self) -> tuple[dict[str, SourceFile], tuple[SourceFile, ...]]:
        if not self.recipe.input:
            raise ConfigurationError("tasks: no input: add input=FOLDER with files named train, dev and test")
        files, reader = (
            source_files(self.recipe.input, self.recipe.output),
            self.config.reader.build(self.recipe.limits),
        )
        named = [file for file in files if not reader.has_parts or is_first_part(file.path.name)]
        if len(named) == 1 and reader.splits_in(named[0].local_path):
            return {"train": named[0]}, ()
        return split_files(
            files, has_parts=reader.has_parts, in_folders=reader.in_folders, split_names=reader.split_names
        )

    @cached_property
    def _complete_config(self) -> TasksConfig:
        """The configuration with the options of the reader that the files determine, such as the classes."""
        splits, _ = self._files()
        reader: TaskReader = self.config.reader.build(self.recipe.limits)
        options = reader.complete_options({split: file.local_path for split, file in splits.items()})
        return replace(self.config, reader=replace(self.config.reader, options=options))

    def mistakes(self) -> Iterator[str]:
        """Yield what is missing: files of a split, a tokenizer, a special token of the template."""
        splits, _ = self._files()
        vocabulary = tokenizer_stage(self.recipe).foreseen_tokenizer().vocabulary
        self.config.check_tokens(vocabulary)
        frame, facts = FRAMES[self.config.frame], open_reader(self._complete_config, self.recipe.limits).facts
        head, switch = facts.head, self.config.code_switch
        if switch is not None:
            check_switched_head(facts)
            read_switcher(switch, self.recipe.limits, self.recipe.seed, self.name)
        # published sets that a run without their files would remove
        inputs = ", ".join(str(entry.path) for entry in self.recipe.input)
        for manifest in sorted((self.folder / facts.name).glob("*/manifest.json")):
            if (split := manifest.parent.name) not in {*splits, *self.config.carve, *self._column_splits(splits)}:
                yield (
                    f"tasks: no file of input={inputs} is the split '{split}', which was published before: give the "
                    f"file again, or remove {manifest.parent}"
                )
        # files that are both a training and another split, although `disjoint` is set
        training = {file.local_path.resolve(): split for split, file in splits.items() if is_training_split(split)}
        for split, file in splits.items() if self.config.disjoint else ():
            if not is_training_split(split) and (train := training.get(file.local_path.resolve())) is not None:
                yield (
                    f"tasks.disjoint: {file.path} is both {train} and {split}, so no row of {split} would be left: "
                    f"give {split} a file of its own, or take it from train: tasks.carve='{{{split}: 0.1}}'"
                )
        if (head, frame.architecture) not in ROW_TYPES:
            fit = [name for name, other in FRAMES.items() if (head, other.architecture) in ROW_TYPES]
            yield (
                f"tasks.frame: the task is for the head {head}, {self.config.frame} frames rows of an "
                f"{frame.architecture}: expected {', '.join(fit)}"
            )

    def version(self) -> int:
        files, _ = self._files()
        contents = [part for split, file in files.items() for part in (split, file.source, file_hash(file.local_path))]
        reader = self._complete_config.reader.build(self.recipe.limits)
        companions = [path for file in files.values() for path in reader.open(file.local_path).others]
        switch = self.config.code_switch
        dictionaries = [] if switch is None else [path for path in switch.dictionaries if path.is_file()]
        contents += [file_hash(path) for path in (*companions, *self.config.exclude, *dictionaries)]
        return hash64(_VERSION, self.config.reader.type.VERSION, *contents)

    def passes(self) -> Sequence[Pass[TaskCounts]]:
        (splits, others), carve, recipe = self._files(), self.config.carve, self.recipe
        if carve and ("train" not in splits or not splits.keys().isdisjoint(carve)):
            raise ConfigurationError(
                f"tasks.carve: expected a file of train and none of {', '.join(carve)}, got files of "
                f"{', '.join(splits)}: leave a file out, or the key"
            )
        named = self._column_splits(splits)
        if named and carve:
            raise ConfigurationError(
                f"tasks.carve: the column of tasks.reader.split names {', '.join(named)} already: remove one key"
            )
        files = [
            *((split, file, split) for split, file in splits.items() if not named),
            *((split, splits["train"], "train") for split in carve),
            *((split, splits["train"], "") for split in named),
        ]
        sources = tuple(SplitSource(split, file.source, file.local_path, own) for split, file, own in files)
        languages = {entry.language or "und" for entry in recipe.input}
        if len(languages) > 1:
            raise ConfigurationError(f"tasks: expected one language of all inputs, got {', '.join(sorted(languages))}")
        sets = TaskSets(
            len(sources), sources, tuple(file.source for file in others), self._complete_config,
            tokenizer_stage(recipe).folder / "tokenizer", recipe.corpus, recipe.seed, recipe.limits, languages.pop(),
        )  # fmt: skip
        return [sets, TaskManifests(sets, recipe.seed)]

    def _column_splits(self, splits: Mapping[str, SourceFile]) -> tuple[str, ...]:
        """Return the splits that a column of the only file names; empty if each split has a file."""
        reader: TaskReader = self._complete_config.reader.build(self.recipe.limits)
        return () if splits.keys() != {"train"} else reader.splits_in(splits["train"].local_path)

    def row(self, counts: TaskCounts) -> Row:
        """Show rows, examples and truncation, in total and per split."""
        parts = tuple((split, _row(part)) for split, part in counts["splits"].items())
        return replace(_row(counts), parts=parts) if len(parts) > 1 else parts[0][1]

    def check(self, counts: TaskCounts) -> None:
        """Check that each row became an example or was rejected with a reason."""
        for split, part in counts.get("splits", {}).items():
            outcomes = part["examples"] + sum(part["refused"].values())
            windows = part["rows_in"] + part["windows"]
            require_equal(f"tasks {split}", "rows_in + windows", windows, "examples + refused", outcomes)


def _row(counts: SplitCounts) -> Row:
    windows = f"\n{counts['windows']:,} of them further windows of a row" if counts["windows"] else ""
    notes = counts.get("notes", {})
    shown = [f"{notes[name]:,} {name.replace('_', ' ')}" for name in SHOWN_NOTES if notes.get(name)]
    out = "\n".join((f"{amount(counts['examples'], 'example')}{windows}", f"{counts['tokens']:,} tokens", *shown))
    cut = {f"cut off {amount(counts['truncated'], 'example')}": counts["truncated_tokens"]}
    return Row(amount(counts["rows_in"], "row"), out, (("row", counts["refused"]), ("token", cut)))
