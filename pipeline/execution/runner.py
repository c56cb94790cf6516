"""Run the stages of a recipe in order; preview which units a run keeps, and which it makes."""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from clozeline.errors import ClozelineError, ConfigurationError, join_names, plural
from clozeline.files import choose_page_path, writing
from clozeline.memory import find_cores
from clozeline.output_lock import hold_output
from clozeline.pipeline.execution.contents import INPUT_CHANGED
from clozeline.pipeline.execution.plan import NO_INPUT, PLAN_STAGE, Plan, load_plan
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.read_ahead import ReadStage
from clozeline.pipeline.execution.stage_run import NEW, StageRun, explain_rerun
from clozeline.pipeline.execution.stages import (
    Stage,
    StageSummary,
    stage_of,
    stages_of,
)
from clozeline.pipeline.execution.unit_record import (
    OTHER_CODE,
    Counts,
    KnownRecords,
    find_files,
    holds_records,
    require_equal,
    without_collections,
)
from clozeline.pipeline.recipe import Recipe
from clozeline.report.terminal_view import print_view
from clozeline.report.views import Section, Table
from clozeline.run_status import UNKNOWN, read_status
from clozeline.terminal import duration, size_text

_MOST_NAMED_FILES: Final = 3
_INPUT_REASONS: Final = (NEW, INPUT_CHANGED)
"""Reasons that the changes of the inputs say better."""
_PROGRAMS: Final = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".lz4": "lz4"}
"""Programs that compress, by suffix; `zstd` for others."""
_MOST_REASONS: Final = 3
"""Most reasons in a row of the table of `--plan`."""


def run_recipe(
    recipe: Recipe,
    last: str | None,
    progress: Progress,
    summaries: list[StageSummary],
    *,
    verify: bool = False,
    force: str | None = None,
) -> Plan:
    """Run the stages of a recipe, up to the stage `last` if it is given; return their plan.

    Each finished stage adds a summary to `summaries`, even if units of a later stage fail. With
    `verify`, inputs and finished files are hashed before units are kept. No unit of the stage
    `force` is kept.
    """
    reading = ReadStage(recipe)
    names = stages_of(recipe, last)
    if force != reading.name:
        stages_of(recipe, force)

    def wait() -> None:
        progress.report("another run is writing this output: waiting for it")

    output = recipe.output_folder
    refuse_foreign_files(recipe, [reading.name] * bool(reading.tasks) + names)
    with hold_output(output, wait), progress.recorded(output):
        known = KnownRecords()
        if reading.tasks:
            first = StageRun(reading, known, verify=verify, force=force == reading.name)
            summaries.append(first.execute(progress))
        with without_collections():
            plan = load_plan(recipe, verify=verify, store=PLAN_STAGE in names)
            previews = preview_stages(recipe, names, plan, known.fork(), verify, force)
        refuse_other_code(previews, force)
        progress.expected = {each.stage: each.seconds for each in previews}
        changed = [each.stage for each in previews if each.changed]
        if not recipe.input and PLAN_STAGE in changed:
            raise ConfigurationError(NO_INPUT)
        if changed:
            print_view(plan_view(plan, previews), progress.console)
            with writing(output):  # its numbers are those of what is replaced
                choose_page_path(output / "report.html").unlink(missing_ok=True)

        giver: StageRun[Any] | None = None  # the stage before, which gives documents
        is_kept = True
        for name, preview in zip(names, previews, strict=True):
            run = preview.run
            is_kept = is_kept and not preview.changed
            if not is_kept:
                run = StageRun(
                    stage_of(recipe, name, plan), known, verify=verify, force=name == force
                )
            summaries.append(run.execute(progress))
            counts = summaries[-1].counts
            if giver is not None:
                check_handover(giver, run.stage, counts)
            if counts.get("documents_out") == 0:
                raise run.stage.empty_output_error(counts)
            if "documents_out" in counts or run.stage.writes_documents:
                giver = run
        return plan


def refuse_foreign_files(recipe: Recipe, names: Iterable[str]) -> None:
    """Raise ConfigurationError if files that no run has written are where the stages write."""
    output = recipe.output_folder
    status = read_status(output)
    if status is not None and (status.state == UNKNOWN or status.step is not None):
        raise ConfigurationError(
            f"output={output}: expected the status.json of a pipeline, got that of a training or "
            "another file: move it away, or choose another folder with output=DIR"
        )
    for name in names:
        folder = recipe.folder(name)
        if not holds_records(folder) and (found := find_files(folder)):
            raise ConfigurationError(
                f"output={output}: the stage {name} writes to {folder}, which holds files, but no "
                f"record of a run: {join_names(found, _MOST_NAMED_FILES)}: move them away, or "
                "choose another folder with output=DIR"
            )


def refuse_other_code(previews: Sequence["StagePreview"], force: str | None) -> None:
    """Refuse to replace the units of a stage of which other code made all, unless it is forced.

    The stages after a forced one are made again with it.
    """
    for preview in previews:
        if preview.stage == force:
            return
        if preview.replaced:
            raise ConfigurationError(
                f"output={preview.run.stage.recipe.output}: {plural(preview.replaced, 'unit')} of "
                f"{preview.stage}, {OTHER_CODE}, would be replaced, and what depends on them: add "
                f"--force {preview.stage} to replace them, or choose another folder with output=DIR"
            )


@dataclass(frozen=True)
class StagePreview:
    """What a run would do in a stage."""

    run: StageRun[Any]
    first_seconds: float
    """CPU seconds of the stage, expected from the size of the input alone"""
    changes: str = ""
    """changes of the inputs, which explain new and changed units"""
    is_whole: bool = True
    """false if the units depend on files that do not exist yet"""

    @property
    def stage(self) -> str:
        """Name of the stage."""
        return self.run.stage.name

    @property
    def changed(self) -> bool:
        """Whether a unit must run or be taken, or may have to, or must be removed."""
        return not (self.is_whole and all(state.is_kept for state in self.run.states))

    @property
    def most_units(self) -> int:
        """Number of units that must run, or may have to."""
        return sum(len(state.changed) for state in self.run.states)

    @property
    def replaced(self) -> int:
        """Number of units that other code has made, if the stage keeps none."""
        reasons = [why for state in self.run.states for why in state.reasons.values()]
        units = sum(len(state.work.units) for state in self.run.states)
        is_other = self.most_units == units
        return sum(why.startswith(OTHER_CODE) for why in reasons) if is_other else 0

    @property
    def cpu_seconds(self) -> float:
        """Expected CPU seconds of these units: measured ones stand for the others."""
        units = sum(len(state.work.units) for state in self.run.states)
        measured = [state.seconds for state in self.run.states if state.seconds is not None]
        if measured:
            return sum(measured)
        return self.first_seconds * (self.most_units / units if units else self.changed)

    @property
    def seconds(self) -> float:
        """Expected seconds of these units on the workers."""
        config = self.run.stage.recipe.executor
        workers = config.workers or config.tasks or find_cores()
        units = [len(state.changed) for state in self.run.states]
        return self.cpu_seconds / max(1, min(workers, max(units, default=workers)))

    def cells(self) -> tuple[str, ...]:
        """Return stage, units, kept units, units to make and CPU time."""
        units = sum(len(state.work.units) for state in self.run.states)
        sure = sum(len(state.reasons) for state in self.run.states)
        most = self.most_units
        time = duration(self.cpu_seconds) if self.changed else ""
        if not self.is_whole and not most:
            return self.stage, "", "", "unknown yet", time
        to_make = f"{sure:,}" if sure == most else f"{sure:,} to {most:,}"
        return self.stage, f"{units:,}", f"{units - most:,}", to_make, time

    def explain(self) -> Iterator[str]:
        """Yield why units must run, or may have to."""
        for label in self.run.unnamed_sets:
            path = shlex.quote(str(self.run.stage.folder / label))
            yield f"the recipe no longer names {label}, which stays; to remove it: rm -r {path}"
        for output, count in self.run.not_reused.items():
            yield f"{plural(count, 'unit')} of {output}, {OTHER_CODE}, are made again here"
        if self.changed and all(state.seconds is None for state in self.run.states):
            yield "first run"
            return
        if self.replaced:
            yield f"{plural(self.replaced, 'unit')}, {OTHER_CODE}, would be replaced"
        yield from filter(None, [self.changes])
        sure = Counter(why for state in self.run.states for why in state.reasons.values())
        for why, count in sure.most_common(_MOST_REASONS):
            if not (self.changes and why in _INPUT_REASONS):
                yield f"{why}: {plural(count, 'unit')}"
        waits = Counter(why for state in self.run.states for why in state.waiting.values())
        for why, count in waits.most_common(_MOST_REASONS):
            yield f"{why}: 0 to {plural(count, 'unit')}"
        if self.run.stage.writes_tokenizer and self.most_units:
            kept = shlex.quote(str(self.run.stage.folder / "tokenizer"))
            yield (
                "the vocabulary may change: its ids then mean other pieces, and trainings on the "
                f"present sets cannot go on; to keep it: cp -r {kept} KEPT, and add "
                "train_tokenizer=null tokenizer.path=KEPT to the command"
            )
        if any(
            state.work.lists_units and state.changed and state.seconds is not None
            for state in self.run.states
        ):
            yield "published sets are written again: end trainings that read them first"


def preview_stages(
    recipe: Recipe,
    names: Sequence[str],
    plan: Plan,
    known: KnownRecords,
    verify: bool,
    force: str | None,
) -> list[StagePreview]:
    """Return what a run would do in each of the named stages, without running a unit."""
    previews = list[StagePreview]()
    parts = [f"{count:,} {kind}" for kind, count in plan.changes.items() if count]
    noun = "input" if sum(plan.changes.values()) == 1 else "inputs"
    changes = f"{', '.join(parts)} {noun}" if parts else ""

    for name in names:
        stage = stage_of(recipe, name, plan)
        run = StageRun(stage, known, verify=verify, force=name == force)
        is_whole = True
        try:
            run.preview()
        except ClozelineError:  # its passes depend on files of earlier stages
            is_whole = False
            known.unknown.add(stage.folder)
        seconds = stage.cpu_seconds_per_mb * plan.bytes / 1e6
        previews.append(StagePreview(run, seconds, changes * (name == PLAN_STAGE), is_whole))
    return previews


def plan_view(plan: Plan, previews: Sequence[StagePreview]) -> Section:
    """Return the table of `--plan`: units of each stage, and below why some must run."""
    before = f" (before: {plan.shards_before:,})" if plan.shards_before != plan.shards else ""
    title = (
        f"{plural(len(plan.inputs), 'input')}, {size_text(plan.bytes)}, "
        f"{plural(len(plan.units), 'unit')}, {plural(plan.shards, 'shard')}{before}"
    )
    memory = describe_memory([each.run.stage for each in previews], len(plan.units))
    header = ("stage", "units", "kept", "to make", "about CPU")
    rows = [each.cells() for each in previews]
    reasons = [f"{each.stage}: {reason}" for each in previews for reason in each.explain()]
    for path in plan.streams[:1]:
        old = shlex.quote(path)
        program = _PROGRAMS.get(PurePath(path).suffix, "zstd")
        reasons.append(
            f"one core reads {join_names(plan.streams, 3)}, because a file that is compressed in "
            "one part, or in UTF-16, cannot be cut into units; to let more cores read it, compress "
            f"it in many parts: {program} -dc {old} | split -C 16M --filter '{program} -q' > "
            f"{old}.new, and then mv {old}.new {old}"
        )
    return Section("", [title, memory, Table("", header, rows), *reasons])


def describe_memory(stages: Sequence[Stage[Any, Any]], units: int) -> str:
    """Return how much memory a worker takes at most and has, and how to change both."""
    largest = max(stages, key=lambda stage: stage.memory)
    (needed, key), executor = largest.memory, largest.recipe.executor
    available, remedy = executor.component().build(executor).memory_of_worker(units)
    told = (
        f"memory: a worker takes up to {size_text(needed)} (in {largest.name}), and has "
        f"{size_text(available)}"
    )
    return told if needed <= available else f"{told}: {remedy}, or lower {key}"


def check_handover(last: StageRun[Any], stage: Stage[Any, Any], counts: Counts) -> None:
    """Check that a stage read exactly the documents that the last one to give some wrote."""
    for read in stage.count_read_documents(counts):
        with explain_rerun(stage.folder):
            require_equal(
                "run",
                f"documents out of {last.stage.name}",
                last.counts.get("documents_out", 0),
                f"documents into {stage.name}",
                read,
            )
