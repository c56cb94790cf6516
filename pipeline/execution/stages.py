"""Stages of the pipeline: passes over units, each published atomically and skipped once complete.

A stage is a folder of `pipeline/` or of an extension with `stage.py` and `config.py`. For example,
`pipeline/dedup/stage.py` holds `DedupStage`, and `DedupConfig` is the class of the recipe's key
`dedup`. The class of a stage declares everything that the runner needs.
"""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

from clozeline.configuration.config import to_data
from clozeline.errors import (
    ClozelineError,
    ConfigurationError,
    PartialFailureError,
    message_text,
    plural,
)
from clozeline.files import open_unlinked, writing
from clozeline.foreign_code import note_key
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.contributions import DocumentCopies, ParentFile
from clozeline.pipeline.execution.equations import Equation, StageRow
from clozeline.pipeline.execution.plan import Plan, load_plan
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import (
    LOGS,
    MARKER_ENDING,
    RECORDS,
    Arguments,
    Counts,
    Output,
    StageCounts,
    UnitRecord,
)
from clozeline.pipeline.recipe import Recipe, explain_missing_stage, load_stage_part
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.repair import cannot_write, explain
from clozeline.report.views import Section

_MOST_NAMED_REASONS: Final = 6

StageConfig = TypeVar("StageConfig")
"""Config class of a stage."""


class Unit(ABC, Generic[StageCounts]):
    """Work on one unit, a frozen dataclass that can be pickled.

    It knows its fields, and what it opens through `inputs`; nothing else may decide what it writes.
    A field that does not decide, such as where a file lies, is left out of comparisons
    (`field(compare=False)`).
    """

    VERSION: ClassVar[int] = 1
    """raised if equal fields and inputs give another output"""

    @abstractmethod
    def run(self, inputs: UnitInputs, output: Output) -> StageCounts:
        """Write files through `output`, and return the counts."""


@dataclass(frozen=True)
class Pass(Generic[StageCounts]):
    """One pass of a stage: units that run in any order and in any process."""

    name: str
    units: Mapping[str, Unit[StageCounts]]
    """units by name, in order

    A name must not depend on the other units, so that a unit keeps its files if units are added. A
    hash range names their number, too: with another number, it is another range.
    """
    lists_units: bool = False
    """true if its files list those of earlier passes: they are removed before one of these changes,
    so that no manifest lists files of two configurations"""


@dataclass(frozen=True)
class StageSummary:
    """Result of a stage: counts summed over its units, bytes of its outputs, seconds of its run."""

    name: str
    counts: Counts
    row: StageRow
    bytes: int
    seconds: float
    units: int
    skipped: bool


@dataclass(frozen=True, slots=True)
class ExpectedTokenizer:
    """Vocabulary and algorithm version of a tokenizer, known before its stage has run."""

    vocabulary: Vocabulary
    version: int


class Stage(ABC, Generic[StageConfig, StageCounts]):
    """A stage of the pipeline: passes that run in sequence.

    `StageConfig`: its config class, `StageCounts`: its counts.
    """

    name: ClassVar[str]
    """name of the recipe's key and of its output folder; it and the next two are literals, which
    are read without importing the stage"""
    after: ClassVar[tuple[str, ...]] = ()
    """stages that run before it, in a recipe that has them"""
    before: ClassVar[tuple[str, ...]] = ()
    """stages that run after it, in a recipe that has them"""
    needs: ClassVar[tuple[str, ...]] = ()
    """other stages that the recipe must have"""
    in_heldout: ClassVar[bool] = False
    """true if no set can be made without it: a study makes held-out sets by these stages alone, so
    that no other drops, repeats or changes their texts"""
    writes_documents: ClassVar[bool] = False
    """true if later stages read documents from its folder"""
    writes_tokenizer: ClassVar[bool] = False
    """true if later stages read a tokenizer from `tokenizer/` in its folder"""
    parent_files: ClassVar[Mapping[str, ParentFile]] = {}
    """files of its folder that are parents of the sets of later stages, by the later stage"""
    cpu_seconds_per_mb: ClassVar[float] = 0.0
    """CPU seconds per MB of input that `--plan` expects before the stage has run, measured with 300
    MB of English JSON lines"""
    equations: ClassVar[tuple[Equation, ...]] = (
        Equation(["documents_in"], ["documents_out", "rejected"], unit="document"),
    )
    """accounting equations: they check the counts of the stage, and say what tables show; by
    default of a stage that keeps or rejects each document"""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.folder = recipe.folder(self.name)

    @cached_property
    def config(self) -> StageConfig:
        """Configuration of this stage, from the recipe."""
        config: StageConfig = self.recipe.config_of(self.name)
        return config

    @cached_property
    def plan(self) -> Plan:
        """Plan of the run, shared by all its stages."""
        return load_plan(self.recipe)

    @property
    def memory(self) -> tuple[float, str]:
        """Return the most bytes of memory that a worker takes, and the key that lowers them.

        Python and its libraries take about 0.3 GB.
        """
        return 0.3e9, "plan.unit_bytes"

    @property
    def document_copies(self) -> DocumentCopies | None:
        """What decides how many copies of each document training reads; None: it does not."""
        return None

    def find_folder(self, name: str) -> Path:
        """Return the folder of a stage, or of the one that gives `documents` or the `tokenizer`.

        Units name these by what they give, so that another stage may give the same.
        """
        if name == "documents":
            return documents_before(self.recipe, self.name)
        if name == "tokenizer":
            return tokenizer_stage(self.recipe).folder
        return self.recipe.folder(name)

    @property
    def set_names(self) -> Collection[str]:
        """Return the names of the sets that the recipe asks for, which are folders of the stage.

        A published set of another name stays. A stage without named sets has none.
        """
        return ()

    @abstractmethod
    def passes(self) -> Iterable[Pass[StageCounts]]:
        """Return the passes, in order.

        The units of a pass are complete when the next pass is requested.
        """

    @abstractmethod
    def row(self, counts: StageCounts) -> StageRow:
        """Return the row of the stage in the table of a run, from counts summed over all units."""

    def ruling_key(self, reason: str) -> str:
        """Return the key of the recipe that controls a drop reason."""
        return self.name

    def explain_loss(self, row: StageRow) -> str:
        """Return the reason that drops 20 % or more of the input, and the key that controls it.

        "" if no reason does.
        """
        if (loss := row.most_dropped()) is None:
            return ""
        noun, count, reason = loss
        verb = "was" if count == 1 else "were"
        dropped = f"{count:,} of {plural(row.totals[noun], noun)} {verb} dropped for one reason"
        return f"{dropped}: {reason} ({self.ruling_key(reason)})"

    def explain_row(self, counts: StageCounts) -> StageRow:
        """Return the row, with a note if one reason drops much of the input."""
        row = self.row(counts)
        if counts.get("documents_out") == 0 or not (loss := self.explain_loss(row)):
            return row  # an error explains an empty output
        return replace(row, notes=(*row.notes, loss))

    def page_sections(self) -> Iterator[Section]:
        """Yield further sections of the report page about a complete stage."""
        yield from ()

    def validate(self) -> Iterator[str]:
        """Yield the mistakes in the configuration that can be found before any stage runs."""
        yield from ()

    def warning(self) -> str:
        """Return a warning about what may fail later, based on the stages before it; or ""."""
        return ""

    def expected_tokenizer(self) -> ExpectedTokenizer:
        """Return vocabulary and version of the tokenizer that the stage will write.

        Only stages with `writes_tokenizer` have one.
        """
        raise NotImplementedError(f"{self.name} gives no tokenizer")

    def empty_output_error(self, counts: StageCounts) -> ClozelineError:
        """Return the error of a stage that drops every document."""
        loss = self.explain_loss(self.row(counts))
        reason = f": {loss}" if loss else ", such as clean.language.keep"
        return PartialFailureError(
            f"{self.name}: no document is left ({self.list_reasons(counts)}); check the input and "
            f"its `reader`, or change the keys that reject{reason}"
        )

    def list_reasons(self, counts: StageCounts) -> str:
        """Return the drop reasons with their counts, the most frequent first."""
        reasons = [named for _, named in self.row(counts).iter_reasons()]
        shown = islice(chain.from_iterable(reasons), _MOST_NAMED_REASONS)
        return ", ".join(shown) or "the input is empty"

    def count_read_documents(self, counts: StageCounts) -> Sequence[int]:
        """Return the number of documents that were read, each time that the stage reads all."""
        return [counts["documents_in"]] if "documents_in" in counts else []

    def check(self, counts: StageCounts) -> None:
        """Raise IntegrityError if an equation does not hold, for a unit or for their sums."""
        for equation in self.equations:
            equation.check(self.name, counts)


def _stage_class(name: str) -> type[Stage[Any, Any]]:
    stage_class: type[Stage[Any, Any]] = load_stage_part(name, "Stage")
    return stage_class


def stages_of(recipe: Recipe, last: str | None = None) -> list[str]:
    """Return the names of the stages of a recipe in running order, up to the `last` one."""
    names = [name for name in all_stages() if recipe.has(name)]
    if last is None:
        return names
    if last not in names:
        raise ConfigurationError(
            f"the recipe has no '{last}' key; its stages are: {', '.join(names)}"
        )
    return names[: names.index(last) + 1]


def parents_of(recipe: Recipe, stage: str) -> tuple[ParentFile, ...]:
    """Return the files of other stages that are parents of the sets of a stage."""
    files = [_stage_class(name).parent_files for name in stages_of(recipe)]
    return tuple(each[stage] for each in files if stage in each)


def check_recipe(recipe: Recipe) -> None:
    """Raise one ConfigurationError with all mistakes of a recipe, before any stage runs."""
    names = stages_of(recipe)
    mistakes = [
        explain_missing_stage(recipe, stage, key)
        for stage in names
        for key in _stage_class(stage).needs
        if not recipe.has(key)
    ]

    mistakes += [
        f"reuse: {earlier}: expected the output of a run, found no folder"
        for earlier in recipe.reuse
        if not earlier.is_dir()
    ]
    if not names:
        mistakes.append(
            f"the recipe has no stage: add the key of at least one of {', '.join(all_stages())}"
        )

    if not mistakes:  # a stage may read the other keys that it needs
        for name in names:
            try:
                mistakes += stage_of(recipe, name).validate()
            except ConfigurationError as error:
                mistakes.append(str(error))

    if mistakes:
        raise ConfigurationError("\n".join(dict.fromkeys(mistakes)))


def stage_of(recipe: Recipe, name: str, plan: Plan | None = None) -> Stage[Any, Any]:
    """Return the stage of a recipe's key; without `plan`, the stage loads its plan when needed."""
    stage = _stage_class(name)(recipe)
    if plan is not None:
        stage.plan = plan
    return stage


def documents_before(recipe: Recipe, before: str) -> Path:
    """Return the folder of the last stage that writes documents and runs before `before`."""
    stages = all_stages()
    for name in reversed(stages[: stages.index(before)]):
        if recipe.has(name) and _stage_class(name).writes_documents:
            return recipe.folder(name)
    raise ConfigurationError(
        f"'{before}' needs documents, but the recipe has no earlier stage that writes them"
    )


def document_stages() -> list[str]:
    """Return the names of the stages that write documents, in order."""
    return [name for name in all_stages() if _stage_class(name).writes_documents]


def last_documents(output: Path) -> Path:
    """Return the folder with the final documents of a pipeline.

    ConfigurationError if there is none. A stage with records counts, also if its files are lost.
    """
    for name in reversed(document_stages()):
        folder = output / name / "documents"
        if (folder.parent / RECORDS).is_dir() or any(folder.glob("*.arrow")):
            return folder
    raise ConfigurationError(
        f"{output}: expected the documents of a pipeline, got none; run the pipeline again"
    )


def tokenizer_stage(recipe: Recipe) -> Stage[Any, Any]:
    """Return the stage that provides the tokenizer.

    ConfigurationError unless there is exactly one.
    """
    chosen = [name for name in stages_of(recipe) if _stage_class(name).writes_tokenizer]
    if len(chosen) != 1:
        keys = " and ".join(
            repr(name) for name in all_stages() if _stage_class(name).writes_tokenizer
        )
        remedy = (
            f"set the other one to null, for example {chosen[0]}=null"
            if chosen
            else "`train_tokenizer: {}` trains one with defaults, tokenizer.path=FOLDER uses yours"
        )
        raise ConfigurationError(
            f"expected one of the keys {keys}, got {' and '.join(chosen) or 'none'}: {remedy}"
        )

    return stage_of(recipe, chosen[0])


@dataclass(frozen=True)
class UnitRunner:
    """Work of one pass, which workers call with the name of each unit; it can be pickled."""

    stage: Stage[Any, Any]
    work: Pass[Any]
    arguments: Mapping[str, Arguments]
    """arguments of the units that run"""

    @property
    def logs(self) -> Path:
        return self.stage.folder / LOGS / self.work.name

    def path(self, unit: str) -> Path:
        """Return the path of a unit's record."""
        return UnitRecord.path(self.stage.folder, self.work.name, unit)

    def _marker(self, unit: str) -> Path:
        """Return the file that exists while a unit runs, and remains if its process dies."""
        return self.path(unit).with_suffix(MARKER_ENDING)

    def __call__(self, unit: str) -> None:
        folder = self.stage.folder
        marker = self._marker(unit)

        with writing(marker):
            marker.parent.mkdir(parents=True, exist_ok=True)
            open_unlinked(marker, "a").close()

        inputs = UnitInputs(self.stage.find_folder)
        output = Output(folder, marker=marker)
        start = time.process_time()

        try:
            counts = self.work.units[unit].run(inputs, output)
            self.stage.check(counts)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # code of others may exit, and libraries panic
            if not isinstance(error, ClozelineError):
                error.add_note(f"unit {unit}")
                note_key(error, to_data(self.stage.recipe))
            code, message = explain(error)
            if isinstance(error, OSError) and not error.filename:
                message = cannot_write(folder, error)
            trace = "" if message else message_text(traceback.format_exc())
            self.fail(unit, message or message_text(repr(error)), code, trace)
            output.files.clear()
        else:
            self._save(
                unit,
                counts=counts,
                outputs=output.files,
                reads=inputs.reads,
                inputs=inputs.hashes,
                cpu_seconds=round(time.process_time() - start, 6),
            )

        # a marker stays if it lists files that the record does not: those of an earlier try
        with suppress(OSError):
            if set(marker.read_text(encoding="utf-8").splitlines()) <= output.files.keys():
                marker.unlink()

    def _save(self, unit: str, **fields: Any) -> None:
        arguments = self.arguments[unit]
        record = UnitRecord(self.work.name, unit, arguments, made=time.time_ns(), **fields)
        record.save(self.stage.folder)

    def fail(
        self, unit: str, reason: str, code: int = PartialFailureError.exit_code, trace: str = ""
    ) -> None:
        """Record that a unit failed."""
        self._save(unit, status="failed", error=reason, exit_code=code, trace=trace)

    def has_result(self, unit: str) -> bool:
        # before a pass, the driver removes the records of the units that must run
        return self.path(unit).exists()

    def has_started(self, unit: str) -> bool:
        return self._marker(unit).exists()
