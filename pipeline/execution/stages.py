"""Stages: passes over units, each published atomically, recorded, and skipped when it is done.

A stage is a folder of `pipeline/` with `stage.py` and `config.py`. `pipeline/dedup/stage.py` holds
`DedupStage` and `DedupConfig`, the class of the recipe's key `dedup`. The stage's class declares
everything that the runner needs.
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
from clozeline.pipeline.recipe import Recipe, load_stage_part
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.registry import component_types
from clozeline.repair import cannot_write, explain_error

DOCUMENTS: Final = "documents"
"""Name of what most stages take and hand over."""
_NAMED_REASONS: Final = 6

StageConfig = TypeVar("StageConfig")
"""Config class of a stage."""


class Pass(ABC, Generic[StageCounts]):
    """One pass of a stage: the same work on units 0 .. units - 1, in any order, in any process.

    Picklable.
    """

    name: str
    units: int
    intermediate: ClassVar[bool] = False
    """true if it is made only for a later pass, so that it is not missed once that one is
    complete"""

    @abstractmethod
    def run(self, unit: int, output: Output) -> StageCounts:
        """Do one unit: write files through `output`, return its counts."""


@dataclass(frozen=True)
class StageSummary:
    """Result of a stage: sums over its units, bytes of its outputs, seconds of the run that made them."""

    name: str
    counts: Counts
    row: StageRow
    bytes: int
    seconds: float
    units: int
    skipped: bool


@dataclass(frozen=True, slots=True)
class Consumed:
    """Amount that a stage consumed of what an earlier stage provided."""

    name: str  # the earlier stage's name of it
    amount: int  # counted where it was read
    times: int = 1  # how often the stage reads all of it


@dataclass(frozen=True, slots=True)
class ExpectedTokenizer:
    """Facts known of a tokenizer before its stage has run: size and special ids, and the version of its algorithm."""

    vocabulary: Vocabulary
    version: int


class Versioned(Protocol):
    """An algorithm whose version is part of a stage's."""

    VERSION: ClassVar[int]


class Stage(ABC, Generic[StageConfig, StageCounts]):
    """A stage of the pipeline: passes that run in sequence.

    `StageConfig`: its config class, `StageCounts`: its counts.
    """

    name: ClassVar[str]
    """name of its folder, of the recipe's key and of its folder of outputs"""
    needs: ClassVar[tuple[str, ...]] = ()
    """stages that a recipe must have too"""
    writes_documents: ClassVar[bool] = False
    """true if later stages find documents in its folder"""
    writes_tokenizer: ClassVar[bool] = False
    """true if later stages find a tokenizer in `tokenizer/` of its folder"""
    build_on_demand: ClassVar[bool] = False
    """true if a later stage that is run alone makes it too: it depends on no other stage"""
    shared: ClassVar[tuple[str, ...]] = ("seed",)
    """keys of the recipe, in addition to its own, that determine its output"""
    equations: ClassVar[tuple[Equation, ...]] = ()
    """what its counts keep: they are checked by these, and tables show what they name"""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.folder = recipe.folder(self.name)

    @cached_property
    def config(self) -> StageConfig:
        """The recipe's key of this stage."""
        config: StageConfig = self.recipe.config_of(self.name)
        return config

    @cached_property
    def plan(self) -> Plan:
        """Plan of the run, shared by all its stages."""
        return load_plan(self.recipe)

    @abstractmethod
    def version(self) -> int:
        """Return the sum of the `VERSION`s of the algorithms that decide bytes."""

    def algorithms(self) -> Sequence[type]:
        """Return the classes of algorithms whose code decides its output: those that its key chooses."""
        return list(component_types(self.config))

    def files(self) -> Mapping[str, str]:
        """Return the hashes of further files that decide its output, by path: another content redoes the stage."""
        return {}

    @abstractmethod
    def passes(self) -> Sequence[Pass[StageCounts]]:
        """Return the passes, in order."""

    @abstractmethod
    def row(self, counts: StageCounts) -> StageRow:
        """Return the stage's row of the table of a run, from the sums over all its units."""

    def ruling_key(self, reason: str) -> str:
        """Return the key of the recipe that decides what is dropped for a reason."""
        return self.name

    def explain_loss(self, row: StageRow) -> str:
        """Return which reason drops nine tenths and more of the input, and the key that rules it; "" if none does."""
        if (loss := row.most_dropped()) is None:
            return ""
        noun, count, reason = loss
        dropped = f"{count:,} of {plural(row.totals[noun], noun)} were dropped for one reason"
        return f"{dropped}: {reason} ({self.ruling_key(reason)})"

    def explained_row(self, counts: StageCounts) -> StageRow:
        """Return the row, with a note where one reason drops nearly all."""
        row = self.row(counts)
        loss = self.explain_loss(row)
        return replace(row, notes=(*row.notes, loss)) if loss else row

    def page_sections(self) -> Iterator[tuple[str, str]]:
        """Yield titles and HTML of what the page of a run shows of a complete stage, next to its amounts."""
        yield from ()

    def validate(self) -> Iterator[str]:
        """Yield what is wrong with its configuration, as far as that can be known before any stage runs."""
        yield from ()

    def warning(self) -> str:
        """Return what may fail once it runs, known from the stages before it; or ""."""
        return ""

    def expected_tokenizer(self) -> ExpectedTokenizer:
        """Return what is known, before any stage runs, of the tokenizer that a stage with `writes_tokenizer` gives."""
        raise NotImplementedError(f"{self.name} gives no tokenizer")

    def empty_output_error(self, counts: StageCounts) -> ClozelineError:
        """Return the error of a stage that leaves no document."""
        loss = self.explain_loss(self.row(counts))
        return PartialFailureError(
            f"{self.name}: every document was rejected ({self.list_reasons(counts)}); check the "
            "input, or change the "
            f"keys that reject{f': {loss}' if loss else ', such as clean.language.keep'}"
        )

    def list_reasons(self, counts: StageCounts) -> str:
        """Return what was left out and why, the most frequent reasons first."""
        reasons = list(self.row(counts).iter_reasons())
        of_records = [reason for noun, named in reasons if noun for reason in named]
        others = [reason for noun, named in reasons if not noun for reason in named]
        return ", ".join((of_records or others)[:_NAMED_REASONS]) or "it is empty"

    def provides(self, counts: StageCounts) -> Mapping[str, int]:
        """Return amounts that later stages consume, by name; override it for more than documents.

        A run compares them with what later stages consume; names that only one of the two has are
        ignored.
        """
        return {DOCUMENTS: counts["documents_out"]} if "documents_out" in counts else {}

    def consumes(self, counts: StageCounts) -> Sequence[Consumed]:
        """Return what the stage consumed of earlier stages, counted where it was read."""
        return [Consumed(DOCUMENTS, counts["documents_in"])] if "documents_in" in counts else []

    def check(self, counts: StageCounts, *, complete: bool = True) -> None:
        """Raise IntegrityError where an equation fails: of one unit, or of the sums over all units if `complete`."""
        for equation in self.equations:
            if complete or not equation.of_stage:
                equation.check(self.name, counts)


def _class_of(name: str) -> type[Stage[Any, Any]]:
    stage_class: type[Stage[Any, Any]] = load_stage_part(name, "Stage")
    return stage_class


def stages_of(recipe: Recipe) -> list[str]:
    """Return the stages of a recipe, in the order they run."""
    return [name for name in all_stages() if recipe.has(name)]


def check_recipe(recipe: Recipe) -> None:
    """Check, before any stage runs, what the configuration alone tells; all mistakes are in one ConfigurationError."""
    names = stages_of(recipe)
    mistakes = [
        f"the recipe's key '{stage}' needs the key '{key}' too; `{key}: {{}}` takes its defaults"
        for stage in names
        for key in _class_of(stage).needs
        if not recipe.has(key)
    ]
    if not names:
        mistakes.append(
            f"the recipe has no stage: give the key of at least one of {', '.join(all_stages())}"
        )
    if not mistakes:  # a stage may look at the keys that it needs
        for name in names:
            try:
                mistakes += stage_of(recipe, name).validate()
            except ConfigurationError as error:
                mistakes.append(str(error))
    if mistakes:
        raise ConfigurationError("\n".join(dict.fromkeys(mistakes)))


def stage_of(recipe: Recipe, name: str, plan: Plan | None = None) -> Stage[Any, Any]:
    """Return the stage of a recipe's key; it loads the plan itself where none is given."""
    stage = _class_of(name)(recipe)
    if plan is not None:
        stage.plan = plan
    return stage


def documents_folder(recipe: Recipe, before: str) -> Path:
    """Return the folder of the last stage of the recipe, before the named one, that writes documents."""
    names = all_stages()
    for name in reversed(names[: names.index(before)]):
        if recipe.has(name) and _class_of(name).writes_documents:
            return recipe.folder(name)
    raise ConfigurationError(
        f"'{before}' needs documents, but the recipe has no earlier stage that writes them"
    )


def document_stages() -> list[str]:
    """Return the names of the stages that write documents, in order."""
    return [name for name in all_stages() if _class_of(name).writes_documents]


def last_documents(output: Path) -> Path:
    """Return the folder of the documents that a pipeline leaves; ConfigurationError if it has none."""
    for name in reversed(document_stages()):
        if any((folder := output / name / "documents").glob("*.arrow")):
            return folder
    raise ConfigurationError(
        f"{output}: expected the documents of a pipeline, got none; run the pipeline again"
    )


def tokenizer_stage(recipe: Recipe) -> Stage[Any, Any]:
    """Return the stage of the recipe that gives the tokenizer; ConfigurationError unless there is exactly one."""
    giving = [name for name in all_stages() if _class_of(name).writes_tokenizer]
    chosen = [name for name in giving if recipe.has(name)]
    if len(chosen) != 1:
        keys = " and ".join(map(repr, giving))
        if chosen:
            remedy = f"set the other one to null, such as {chosen[0]}=null"
        else:
            remedy = (
                "`train_tokenizer: {}` trains one with the defaults, tokenizer.path=FOLDER reads "
                "yours"
            )
        raise ConfigurationError(
            f"expected one of the keys {keys}, got {' and '.join(chosen) or 'none'}: {remedy}"
        )
    return stage_of(recipe, chosen[0])


def stage_key(stage: Stage[Any, Any], upstream: str) -> str:
    """Return the digest of what determines a stage's output: its key, shared keys, and all earlier stages."""
    plain = to_data(stage.recipe)
    facts = {
        "stage": stage.name,
        "config": plain[stage.name],
        "shared": {name: plain[name] for name in stage.shared},
        "limit": stage.recipe.limit,
        "files": dict(stage.files()),
        "upstream": upstream,
        "version": stage.version(),
    }
    own = plugins.digests(stage.algorithms())
    return config_digest(facts | ({"own algorithms": own} if own else {}))


@dataclass(frozen=True)
class UnitRunner:
    """The step that workers run on each unit of a pass. Picklable."""

    stage: Stage[Any, Any]
    work: Pass[Any]
    key: str
    """key that the records of the units must have"""

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
        # the driver removes the records of units that must be made before it starts a pass
        return UnitRecord.path(self.stage.folder, self.work.name, unit).exists()

    def has_started(self, unit: int) -> bool:
        return unit_marker(self.stage.folder, self.work.name, unit).exists()

    def mark_failed(self, unit: int, reason: str) -> None:
        self._fail(unit, reason, 69)
