"""Stages of the pipeline: passes over units, each published atomically and skipped once complete.

A stage is a folder of `pipeline/` with `stage.py` and `config.py`. For example,
`pipeline/dedup/stage.py` holds `DedupStage`, and `DedupConfig` is the class of the recipe's key
`dedup`. The class of a stage declares everything that the runner needs.
"""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from clozeline import plugins
from clozeline.configuration.config import config_digest, to_data
from clozeline.errors import (
    ClozelineError,
    ConfigurationError,
    PartialFailureError,
    StorageError,
    message_text,
    plural,
)
from clozeline.files import open_unlinked
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.equations import Equation, StageRow
from clozeline.pipeline.execution.plan import Plan, load_plan
from clozeline.pipeline.execution.unit_record import (
    LOGS,
    Counts,
    Output,
    StageCounts,
    UnitRecord,
    unit_marker,
)
from clozeline.pipeline.recipe import Recipe, explain_missing_stage, load_stage_part
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.registry import component_types
from clozeline.repair import cannot_write, explain_error

DOCUMENTS: Final = "documents"
"""Name of the amount that most stages read and write."""
_MOST_NAMED_REASONS: Final = 6

StageConfig = TypeVar("StageConfig")
"""Config class of a stage."""


class Pass(ABC, Generic[StageCounts]):
    """One pass of a stage: the same work on each unit, in any order and in any process.

    Units are numbered from 0 to `units` - 1. A pass can be pickled.
    """

    name: str
    units: int
    intermediate: ClassVar[bool] = False
    """true if only a later pass needs the output of this pass; the output may be missing once the
    later pass is complete"""

    @abstractmethod
    def run(self, unit: int, output: Output) -> StageCounts:
        """Process one unit: write files through `output`, and return its counts."""


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
class Consumed:
    """An amount, such as tokens, that a stage read from the output of an earlier stage."""

    name: str  # name of the amount in the earlier stage
    amount: int  # counted while reading
    times: int = 1  # how often the stage reads everything


@dataclass(frozen=True, slots=True)
class ExpectedTokenizer:
    """Vocabulary and algorithm version of a tokenizer, known before its stage has run."""

    vocabulary: Vocabulary
    version: int


class Versioned(Protocol):
    """An algorithm whose version counts toward the version of its stage."""

    VERSION: ClassVar[int]


class Stage(ABC, Generic[StageConfig, StageCounts]):
    """A stage of the pipeline: passes that run in sequence.

    `StageConfig`: its config class, `StageCounts`: its counts.
    """

    name: ClassVar[str]
    """name of its source folder, of the recipe's key and of its output folder"""
    needs: ClassVar[tuple[str, ...]] = ()
    """other stages that the recipe must have"""
    writes_documents: ClassVar[bool] = False
    """true if later stages read documents from its folder"""
    writes_tokenizer: ClassVar[bool] = False
    """true if later stages read a tokenizer from `tokenizer/` in its folder"""
    build_on_demand: ClassVar[bool] = False
    """true if this stage depends on no other: running a later stage alone then runs it, too"""
    shared: ClassVar[tuple[str, ...]] = ("seed",)
    """further keys of the recipe that determine its output"""
    equations: ClassVar[tuple[Equation, ...]] = ()
    """accounting equations: they check the counts of the stage, and say what tables show"""

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

    @abstractmethod
    def version(self) -> int:
        """Return the sum of the `VERSION`s of the algorithms that decide the output bytes."""

    def algorithms(self) -> Sequence[type]:
        """Return the algorithms whose code decides the output; default: all in the recipe's key."""
        return list(component_types(self.config))

    def files(self) -> Mapping[str, str]:
        """Return the hashes of further files that decide the output, by path.

        If one of them changes, the stage runs again.
        """
        return {}

    @abstractmethod
    def passes(self) -> Sequence[Pass[StageCounts]]:
        """Return the passes, in order."""

    @abstractmethod
    def row(self, counts: StageCounts) -> StageRow:
        """Return the row of the stage in the table of a run, from counts summed over all units."""

    def ruling_key(self, reason: str) -> str:
        """Return the key of the recipe that controls a drop reason."""
        return self.name

    def explain_loss(self, row: StageRow) -> str:
        """Return the reason that drops 90 % or more of the input, and the key that controls it.

        "" if no reason does.
        """
        if (loss := row.most_dropped()) is None:
            return ""
        noun, count, reason = loss
        dropped = f"{count:,} of {plural(row.totals[noun], noun)} were dropped for one reason"
        return f"{dropped}: {reason} ({self.ruling_key(reason)})"

    def explain_row(self, counts: StageCounts) -> StageRow:
        """Return the row, with a note if one reason drops nearly everything."""
        row = self.row(counts)
        loss = self.explain_loss(row)
        return replace(row, notes=(*row.notes, loss)) if loss else row

    def page_sections(self) -> Iterator[tuple[str, str]]:
        """Yield titles and HTML of further sections of the report page about a complete stage."""
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
            f"{self.name}: every document was rejected ({self.list_reasons(counts)}); check the "
            f"input, or change the keys that reject{reason}"
        )

    def list_reasons(self, counts: StageCounts) -> str:
        """Return the drop reasons with their counts, the most frequent first."""
        reasons = list(self.row(counts).iter_reasons())
        of_records: list[str] = []
        others: list[str] = []
        for noun, named in reasons:
            (of_records if noun else others).extend(named)
        return ", ".join((of_records or others)[:_MOST_NAMED_REASONS]) or "the input is empty"

    def provides(self, counts: StageCounts) -> Mapping[str, int]:
        """Return the amounts that later stages read, by name.

        Override it if later stages read more than documents. A run compares these amounts with what
        later stages count in `consumes`. A name that only one of the two has is ignored.
        """
        return {DOCUMENTS: counts["documents_out"]} if "documents_out" in counts else {}

    def consumes(self, counts: StageCounts) -> Sequence[Consumed]:
        """Return the amounts that the stage read of earlier stages, counted while reading."""
        return [Consumed(DOCUMENTS, counts["documents_in"])] if "documents_in" in counts else []

    def check(self, counts: StageCounts, *, complete: bool = True) -> None:
        """Raise IntegrityError if an equation does not hold.

        `complete` says that these are the sums over all units, not the counts of one.
        """
        for equation in self.equations:
            if complete or not equation.of_stage:
                equation.check(self.name, counts)


def _stage_class(name: str) -> type[Stage[Any, Any]]:
    stage_class: type[Stage[Any, Any]] = load_stage_part(name, "Stage")
    return stage_class


def stages_of(recipe: Recipe) -> list[str]:
    """Return the names of the stages of a recipe, in running order."""
    return [name for name in all_stages() if recipe.has(name)]


def check_recipe(recipe: Recipe) -> None:
    """Raise one ConfigurationError with all mistakes of a recipe, before any stage runs."""
    names = stages_of(recipe)
    mistakes = [
        explain_missing_stage(recipe, stage, key)
        for stage in names
        for key in _stage_class(stage).needs
        if not recipe.has(key)
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


def documents_folder(recipe: Recipe, before: str) -> Path:
    """Return the folder of the last stage that writes documents and runs before `before`."""
    names = all_stages()
    for name in reversed(names[: names.index(before)]):
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

    ConfigurationError if there is none.
    """
    for name in reversed(document_stages()):
        if any((folder := output / name / "documents").glob("*.arrow")):
            return folder
    raise ConfigurationError(
        f"{output}: expected the documents of a pipeline, got none; run the pipeline again"
    )


def tokenizer_stage(recipe: Recipe) -> Stage[Any, Any]:
    """Return the stage that provides the tokenizer.

    ConfigurationError unless there is exactly one.
    """
    candidates = [name for name in all_stages() if _stage_class(name).writes_tokenizer]
    chosen = [name for name in candidates if recipe.has(name)]
    if len(chosen) != 1:
        keys = " and ".join(map(repr, candidates))
        remedy = (
            f"set the other one to null, for example {chosen[0]}=null"
            if chosen
            else "`train_tokenizer: {}` trains one with defaults, tokenizer.path=FOLDER uses yours"
        )
        raise ConfigurationError(
            f"expected one of the keys {keys}, got {' and '.join(chosen) or 'none'}: {remedy}"
        )

    return stage_of(recipe, chosen[0])


def stage_key(stage: Stage[Any, Any], upstream: str) -> str:
    """Return the digest of everything that determines the output of a stage.

    These are the stage's key of the recipe, the shared keys, and all earlier stages.
    """
    recipe = to_data(stage.recipe)
    content = {
        "stage": stage.name,
        "config": recipe[stage.name],
        "shared": {name: recipe[name] for name in stage.shared},
        "limit": stage.recipe.limit,
        "files": dict(stage.files()),
        "upstream": upstream,
        "version": stage.version(),
    }
    if custom := plugins.digests(stage.algorithms()):
        content["own algorithms"] = custom
    return config_digest(content)


@dataclass(frozen=True)
class UnitRunner:
    """Work of one pass, which workers call with each unit; it can be pickled."""

    stage: Stage[Any, Any]
    work: Pass[Any]
    key: str
    """`stage_key`, which the records of the units must have"""

    @property
    def logs(self) -> Path:
        return self.stage.folder / LOGS / self.work.name

    def __call__(self, unit: int) -> None:
        folder = self.stage.folder
        marker = unit_marker(folder, self.work.name, unit)

        try:
            marker.parent.mkdir(parents=True, exist_ok=True)
            open_unlinked(marker, "w").close()
        except OSError as error:
            raise StorageError(cannot_write(marker, error)) from error

        output = Output(folder)

        try:
            counts = self.work.run(unit, output)
            self.stage.check(counts, complete=False)
        except ClozelineError as error:
            self._fail(unit, str(error), error.exit_code)
        except OSError as error:  # no layer below has explained the error of a file
            message = explain_error(error) if error.filename else cannot_write(folder, error)
            self._fail(unit, message, StorageError.exit_code)
        except Exception as error:
            self._fail(unit, message_text(repr(error)), 1, message_text(traceback.format_exc()))
        else:
            record = UnitRecord(
                self.work.name, unit, self.key, "ok", counts, output.files, inputs=output.inputs
            )
            record.save(folder)

        with suppress(OSError):
            marker.unlink()

    def _fail(self, unit: int, message: str, exit_code: int, trace: str = "") -> None:
        record = UnitRecord(
            self.work.name, unit, self.key, "failed", {}, {}, message, exit_code, trace
        )
        record.save(self.stage.folder)

    def has_result(self, unit: int) -> bool:
        # before a pass, the driver removes the records of the units that must run
        return UnitRecord.path(self.stage.folder, self.work.name, unit).exists()

    def has_started(self, unit: int) -> bool:
        return unit_marker(self.stage.folder, self.work.name, unit).exists()

    def mark_failed(self, unit: int, reason: str) -> None:
        self._fail(unit, reason, PartialFailureError.exit_code)
