"""Run the stages of a recipe in order; preview which units a run keeps, and which it makes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from clozeline.errors import (
    ClozelineError,
    ConfigurationError,
    PartialFailureError,
    plural,
)
from clozeline.pipeline.execution.block_reading import ReadStage
from clozeline.pipeline.execution.contents import INPUT_CHANGED
from clozeline.pipeline.execution.output_lock import hold_output
from clozeline.pipeline.execution.plan import PLAN_STAGE, Plan, load_plan, store_plan
from clozeline.pipeline.execution.progress import PlanRow, Progress
from clozeline.pipeline.execution.stage_run import NEW, PassState, StageRun, explain_rerun
from clozeline.pipeline.execution.stages import (
    Stage,
    StageSummary,
    stage_of,
    stages_of,
    writes_tokenizer,
)
from clozeline.pipeline.execution.unit_record import (
    Counts,
    KnownRecords,
    require_equal,
    without_collections,
)
from clozeline.pipeline.recipe import Recipe
from clozeline.terminal import duration, size_text

_INPUT_REASONS: Final = (NEW, INPUT_CHANGED)
"""Reasons that the changes of the inputs say better."""
_MOST_REASONS: Final = 3
"""Most reasons in a row of the table of `--plan`."""


def run_recipe(
    recipe: Recipe,
    only: str | None,
    progress: Progress,
    summaries: list[StageSummary],
    *,
    verify: bool = False,
    force: str | None = None,
) -> None:
    """Run all stages of a recipe, or the stage `only`, whose earlier stages must be complete.

    Each finished stage adds a summary to `summaries`, even if units of a later stage fail. With
    `verify`, inputs and finished files are hashed before units are kept. No unit of the stage
    `force` is kept.
    """
    names = stages_of(recipe)
    reading = ReadStage(recipe)
    known_names = [*names, *([reading.name] if reading.tasks else [])]
    for name in filter(None, (only, force)):
        if name not in known_names:
            raise ConfigurationError(
                f"the recipe has no '{name}' key; its stages are: {', '.join(known_names)}"
            )

    if only is not None:
        names = names[: names.index(only) + 1]

    output = recipe.output_folder
    with hold_output(output, progress.waiting), progress.recorded(output):
        known = KnownRecords()
        if reading.tasks and only in (None, PLAN_STAGE):
            run = StageRun(reading, known, verify=verify, force=force == reading.name)
            summaries.append(run.execute(progress))
        if only in (None, PLAN_STAGE) and PLAN_STAGE in names:
            plan = store_plan(recipe, verify=verify)
        else:
            plan = load_plan(recipe, verify=verify)

        input_bytes = plan.bytes
        last: StageRun[Any] | None = None  # the stage before, which gives documents
        losses = list[str]()
        with without_collections():
            previews = list(preview_stages(recipe, names, plan, known.fork(), verify, force))
        shown = [each for each in previews if only in (None, each.stage)]
        if any(each.changed for each in shown):
            rows = [each.row() for each in shown]
            progress.show_plan(describe_plan(plan), rows)
            if warning := warn_of_new_tokenizer(recipe, rows):
                progress.report(warning)

        is_kept = True
        for name, preview in zip(names, previews, strict=True):
            stage = stage_of(recipe, name, plan)
            run = StageRun(stage, known, verify=verify, force=name == force)
            is_kept = is_kept and not preview.changed
            if is_kept:
                run.states = list(preview.states)
            missing = "" if only in (None, name) else preview.find_missing()
            if only in (None, name) or (missing and stage.build_on_demand):
                with _explain_losses(losses):
                    summaries.append(run.execute(progress, input_bytes))
                if last is not None:
                    check_handover(last, stage, summaries[-1].counts)
                if summaries[-1].counts.get("documents_out") == 0:
                    raise stage.empty_output_error(summaries[-1].counts)
                if loss := stage.explain_loss(summaries[-1].row):
                    losses.append(f"{name}: {loss}")
            elif missing:
                raise ConfigurationError(
                    f"'{only}' needs '{name}', which is not complete ({missing}): run `clozeline "
                    f"{name}` with the same configuration first"
                )

            if "documents_out" in run.counts:
                input_bytes = run.bytes()
                last = run


@dataclass(frozen=True)
class StagePreview:
    """What a run would do in a stage."""

    stage: str
    states: Sequence[PassState]
    input_mb: float
    seconds_per_mb: float
    changes: str = ""
    """changes of the inputs, which explain new and changed units"""
    is_whole: bool = True
    """false if the units depend on files that do not exist yet"""

    @property
    def changed(self) -> bool:
        """Whether a unit must run or be taken, or may have to, or must be removed."""
        return not self.is_whole or any(
            state.changed or state.reused or state.removed for state in self.states
        )

    def find_missing(self) -> str:
        """Return why the first incomplete unit must run; "" if the stage is complete."""
        for state in self.states:
            for unit in sorted({*state.changed, *state.reused}):
                why = state.reasons.get(unit) or state.waiting.get(unit) or NEW
                return f"{state.work.name}/{state.work.names[unit]}: {why}"
        return "" if self.is_whole else "its units are not known yet"

    def row(self) -> PlanRow:
        """Return the row of the stage in the table of `--plan`."""
        units = sum(len(state.work.units) for state in self.states)
        sure = sum(len(state.reasons) for state in self.states)
        most = sum(len(state.changed) for state in self.states)
        counts: Counter[str] = Counter()
        for state in self.states:
            counts.update(state.reasons.values())
        if self.changes:
            counts = Counter({why: n for why, n in counts.items() if why not in _INPUT_REASONS})
        is_first = self.changed and not any(state.has_records for state in self.states)
        reasons = [f"{why} ({count:,})" for why, count in counts.most_common(_MOST_REASONS)]
        waits = Counter(why for state in self.states for why in state.waiting.values())
        reasons += [f"{why}: 0 to {count:,}" for why, count in waits.most_common(_MOST_REASONS)]
        why = ["first run"] if is_first else [*filter(None, [self.changes]), *reasons]

        # measured units stand for the others; without any, the size of the input decides
        measured = [state.cpu_seconds for state in self.states if state.has_records]
        share = most / units if units else 1
        seconds = sum(measured) if measured else self.seconds_per_mb * self.input_mb * share
        known = units - most
        return PlanRow(self.stage, units, known, sure, most, tuple(why), seconds, self.is_whole)


def preview_stages(
    recipe: Recipe,
    names: Sequence[str],
    plan: Plan,
    known: KnownRecords,
    verify: bool,
    force: str | None,
) -> Iterator[StagePreview]:
    """Yield what a run would do in each of the named stages, without running a unit."""
    parts = [f"{count:,} {kind}" for kind, count in plan.changes.items() if count]
    noun = "input" if sum(plan.changes.values()) == 1 else "inputs"
    changes = f"{', '.join(parts)} {noun}" if parts else ""

    for name in names:
        stage = stage_of(recipe, name, plan)
        states = list[PassState]()
        is_whole = True
        try:
            states += StageRun(stage, known, verify=verify, force=name == force).preview()
        except ClozelineError:  # its passes depend on files of earlier stages
            is_whole = False
            known.unknown.add(stage.folder)
        yield StagePreview(
            name,
            states,
            plan.bytes / 1e6,
            stage.cpu_seconds_per_mb,
            changes * (name == PLAN_STAGE),
            is_whole,
        )


def warn_of_new_tokenizer(recipe: Recipe, rows: Sequence[PlanRow]) -> str:
    """Return the price of a tokenizer that will be trained again, and how to keep the present one.

    "" if none will be.
    """
    remade = [row.stage for row in rows if row.most]
    stage = next((name for name in remade if writes_tokenizer(name)), "")
    folder = recipe.folder(stage) / "tokenizer"
    if not stage or not folder.exists():
        return ""

    later = [row for row in rows if row.stage in remade[remade.index(stage) :]]
    time = duration(sum(row.cpu_seconds for row in later))
    return (
        f"the tokenizer changes with its sample, so {', '.join(row.stage for row in later)} are "
        f"made again, in about {time} of CPU time. To keep the present one, copy it and use the "
        f"copy: cp -r {folder} KEPT, then add {stage}=null tokenizer.path=KEPT to the command"
    )


def describe_plan(plan: Plan) -> str:
    """Return a line about inputs, units and shards."""
    before = f" (before: {plan.shards_before:,})" if plan.shards_before != plan.shards else ""
    return (
        f"{plural(len(plan.inputs), 'input')}, {size_text(plan.bytes)}, "
        f"{plural(len(plan.units), 'unit')}, {plural(plan.shards, 'shard')}{before}"
    )


def check_handover(last: StageRun[Any], stage: Stage[Any, Any], counts: Counts) -> None:
    """Check that a stage read exactly the documents that the last one to give some wrote."""
    for read in stage.count_read_documents(counts):
        with explain_rerun(stage.folder):
            require_equal(
                "run",
                f"documents out of {last.stage.name}",
                last.counts["documents_out"],
                f"documents into {stage.name}",
                read,
            )


@contextmanager
def _explain_losses(losses: Sequence[str]) -> Iterator[None]:
    """Add to the error of a stage with too little input which reason dropped much of it."""
    try:
        yield
    except (ConfigurationError, PartialFailureError) as error:
        if not losses or error.exit_code != ConfigurationError.exit_code:
            raise
        explained = type(error)("; ".join([*losses, str(error)]))
        explained.exit_code = error.exit_code
        raise explained from error
