"""Run the stages of a recipe in order: skip finished units, verify counts, write reports."""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Generic, cast

from clozeline.configuration.config import config_digest
from clozeline.errors import ConfigurationError, IntegrityError, PartialFailureError
from clozeline.files import publish_text, sweep
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.executors import Assignment, Executor
from clozeline.pipeline.execution.output_lock import hold_output
from clozeline.pipeline.execution.plan import PLAN_STAGE, Plan, freeze_plan, load_plan
from clozeline.pipeline.execution.progress import Progress, done_counter
from clozeline.pipeline.execution.report import earlier_report, write_stage_report
from clozeline.pipeline.execution.stages import (
    Stage,
    StageSummary,
    UnitRunner,
    stage_key,
    stage_of,
    stages_of,
)
from clozeline.pipeline.execution.unit_record import (
    DOCUMENTS_FOLDER,
    LOGS,
    TEMPORARY,
    Counts,
    StageCounts,
    UnitRecord,
    add_counts,
    outputs_digest,
    read_records,
    require_equal,
)
from clozeline.pipeline.recipe import ExecutorConfig, Recipe, recipe_text
from clozeline.pipeline.shards.quarantine import QUARANTINE
from clozeline.reporting import Reporting

WORK_IS_DONE: Final = (
    "the outputs of the stages are complete; this is a bug in Clozeline: please report this line"
)
"""Message if the summary of finished work fails."""
# Files of a stage's folder that no record lists.
_UNRECORDED_FILES: Final = ("config.yaml", "plan.json", "report.json")


def run_recipe(
    recipe: Recipe,
    only: str | None,
    progress: Progress,
    summaries: list[StageSummary],
    *,
    verify: bool = False,
) -> None:
    """Run all stages of a recipe, or the stage `only`, whose earlier stages must be complete.

    Each finished stage adds a summary to `summaries`, even if units of a later stage fail. With
    `verify`, inputs and finished files are hashed before units are skipped.
    """
    names = stages_of(recipe)
    if only is not None and only not in names:
        raise ConfigurationError(
            f"the recipe has no '{only}' key; its stages are: {', '.join(names)}"
        )

    with hold_output(recipe.output_folder, progress.waiting):
        if only in (None, PLAN_STAGE) and PLAN_STAGE in names:
            plan = freeze_plan(recipe, verify=verify)
        else:
            plan = load_plan(recipe, verify=verify)

        input_bytes = plan.bytes
        provided = dict[str, tuple[str, int]]()
        losses = list[str]()

        for run in stage_runs(recipe, plan, verify=verify):
            stage = run.stage
            name = run.stage.name
            missing = "" if only in (None, name) else run.find_missing_output()
            if only in (None, name) or (missing and stage.build_on_demand):
                with _explain_losses(losses):
                    summaries.append(run.execute(progress, input_bytes))
                _check_handover(provided, stage, summaries[-1].counts)
                if summaries[-1].counts.get("documents_out") == 0:
                    raise stage.empty_output_error(summaries[-1].counts)
                if loss := stage.explain_loss(summaries[-1].row):
                    losses.append(f"{name}: {loss}")
            elif missing:
                raise ConfigurationError(
                    f"'{only}' needs '{name}', which is not complete ({missing}): run `clozeline "
                    f"{name}` with the same configuration first"
                )

            if only == name:
                break
            if amounts := stage.provides(run.counts()):
                input_bytes = run.bytes()
                provided |= {noun: (name, amount) for noun, amount in amounts.items()}


def stage_runs(recipe: Recipe, plan: Plan, *, verify: bool) -> Iterator["StageRun[Any]"]:
    """Yield the runs of the stages in order.

    A stage must be complete before the next is requested.
    """
    upstream = plan.digest
    for name in stages_of(recipe):
        stage = stage_of(recipe, name, plan)
        run = StageRun(stage, stage_key(stage, upstream), verify)
        yield run
        upstream = run.digest(upstream)


def _check_handover(
    provided: Mapping[str, tuple[str, int]], stage: Stage[Any, Any], counts: Counts
) -> None:
    """Check that a stage read exactly the amounts that the nearest earlier stage provided."""
    for consumed in stage.consumes(counts):
        if consumed.name in provided:
            provider, amount = provided[consumed.name]
            times = f", {consumed.times} times" * (consumed.times > 1)
            with _explain_rerun(stage.folder):
                require_equal(
                    "run",
                    f"{consumed.name} out of {provider}{times}",
                    amount * consumed.times,
                    f"{consumed.name} into {stage.name}",
                    consumed.amount,
                )


@contextmanager
def _explain_losses(losses: Sequence[str]) -> Iterator[None]:
    """Add to the error of a stage with too little input which reason dropped nearly everything."""
    try:
        yield
    except (ConfigurationError, PartialFailureError) as error:
        if not losses or error.exit_code != ConfigurationError.exit_code:
            raise
        explained = type(error)("; ".join([*losses, str(error)]))
        explained.exit_code = error.exit_code
        raise explained from error


@contextmanager
def _explain_rerun(folder: Path) -> Iterator[None]:
    """Add to an accounting error of a complete stage the advice how to run the stage again."""
    try:
        yield
    except IntegrityError as error:
        raise IntegrityError(
            f"{error}; to run the stage again, remove {folder} and run the same command"
        ) from error


class StageRun(Generic[StageCounts]):
    """One stage of a run: find missing units and run them."""

    def __init__(self, stage: Stage[Any, StageCounts], key: str, verify: bool) -> None:
        self.stage = stage
        self.runners = [UnitRunner(stage, work, key) for work in stage.passes()]
        self.verify = verify

    @cached_property
    def records(self) -> dict[tuple[str, int], UnitRecord]:
        """Records of the current configuration, succeeded or failed, by pass and unit.

        Each file is read once. Only the process that holds the lock of the output may rely on them.
        """
        keys = {runner.work.name: (runner.key, runner.work.units) for runner in self.runners}
        current = {}
        for record in read_records(self.stage.folder):
            key, units = keys.get(record.pass_name, ("", 0))
            if record.key == key and 0 <= record.unit < units:
                current[record.pass_name, record.unit] = record
        return current

    def missing(self) -> list[list[int]]:
        """Return the units to run, per pass; an empty list if the stage is complete.

        Intermediate files count only if a later incomplete pass needs them.
        """
        missing_units: list[list[int]] = []
        needed = False
        for runner in reversed(self.runners):
            units = range(runner.work.units if needed or not runner.work.intermediate else 0)
            incomplete = [unit for unit in units if self._find_missing_output(runner, unit, needed)]
            needed = needed or bool(incomplete)
            missing_units.append(incomplete)
        return missing_units[::-1] if needed else []

    def find_missing_output(self) -> str:
        """Return why the first incomplete unit must run; "" if the stage is complete."""
        missing = list(zip(self.runners, self.missing(), strict=False))
        for runner, units in reversed(missing):
            if units:
                return self._find_missing_output(runner, units[0], False)
        return ""

    def _find_missing_output(self, runner: UnitRunner, unit: int, temporary: bool) -> str:
        record = self.records.get((runner.work.name, unit))
        folder = self.stage.folder
        if record is None:
            path = UnitRecord.path(folder, runner.work.name, unit)
            return f"{path} is missing, damaged, or the record of another configuration"
        return record.find_missing_output(folder, temporary=temporary, verify=self.verify)

    def iter_finished(self) -> Iterator[UnitRecord]:
        """Yield the records of the finished units of all passes, in order."""
        for runner in self.runners:
            for unit in range(runner.work.units):
                record = self.records.get((runner.work.name, unit))
                if record is not None and record.status == "ok":
                    yield record

    def bytes(self) -> int:
        """Return the bytes that later stages read: the documents, or else all outputs."""
        return sum(
            record.bytes(DOCUMENTS_FOLDER * self.stage.writes_documents)
            for record in self.iter_finished()
        )

    def counts(self) -> StageCounts:
        """Return the sums over all records."""
        counts: Counts = {}
        for record in self.iter_finished():
            add_counts(counts, record.counts)
        return cast(StageCounts, counts)

    def digest(self, upstream: str) -> str:
        """Return the digest of everything published up to and including this stage."""
        return config_digest(
            {"upstream": upstream, "outputs": outputs_digest(self.iter_finished())}
        )

    def execute(self, progress: Progress, input_bytes: int = 0) -> StageSummary:
        """Run missing units, then sum counts, write the report and remove intermediate files.

        `input_bytes` is the size of what the stage reads: outputs of the previous stage, or inputs.
        """
        start = time.monotonic()
        stage = self.stage
        folder = self.stage.folder
        previous = earlier_report(folder / "report.json")
        missing = self.missing()
        if missing and (warning := stage.warning()):
            progress.report(warning)

        publish_text(folder / "config.yaml", recipe_text(stage.recipe))
        sweep(folder)
        if missing:
            self._remove_stale_files(progress)
        for runner, units in zip(self.runners, missing, strict=False):
            self._run_pass(runner, units, progress, input_bytes)
        return self._summarize(progress, time.monotonic() - start, previous, skipped=not missing)

    def _remove_stale_files(self, progress: Progress) -> None:
        """Remove files that no record lists, so that outputs of two configurations never mix."""
        folder = self.stage.folder
        listed = {
            folder / relative for record in self.iter_finished() for relative in record.outputs
        }
        listed |= {UnitRecord.path(folder, *unit) for unit in self.records} | {
            folder / name for name in _UNRECORDED_FILES
        }

        for path in folder.rglob("*"):
            if (
                path.relative_to(folder).parts[0] not in (LOGS, TEMPORARY)
                and path not in listed
                and path.is_file()
            ):
                path.unlink()
                if path.name == QUARANTINE:
                    progress.report(
                        f"{path} is removed: the blocks that it lists are written again"
                    )

    def _run_pass(
        self, runner: UnitRunner, units: Sequence[int], progress: Progress, input_bytes: int
    ) -> None:
        """Run units of a pass and read their records; PartialFailureError if some failed."""
        folder = self.stage.folder
        name = runner.work.name
        paths = {unit: UnitRecord.path(folder, name, unit) for unit in units}
        for unit, path in paths.items():
            self.records.pop((name, unit), None)
            path.unlink(missing_ok=True)

        title = self.stage.name if name == "main" else f"{self.stage.name} · {name}"
        with progress.bar(title, len(units)) as bar:
            count_done = done_counter(folder / "records", {path.name for path in paths.values()})
            bytes_of_units = input_bytes * len(units) // max(1, runner.work.units)
            run_units(
                runner,
                units,
                self.stage.recipe.executor,
                lambda: bar(count_done()),
                progress.report,
                bytes_of_units,
            )

        for unit, path in paths.items():
            record = UnitRecord.read(path)
            if record is None or record.key != runner.key:
                raise IntegrityError(
                    f"{path}: expected the record of a unit that has just run, got one that this "
                    "version cannot read: make sure that all machines run the same version of "
                    "Clozeline, then run the same command again"
                )
            self.records[name, unit] = record

        records = [self.records[name, unit] for unit in units]
        if failed := [record for record in records if record.status == "failed"]:
            raise self._failure_of(failed)

    def _failure_of(self, failed: Sequence[UnitRecord]) -> PartialFailureError:
        name = self.stage.name
        lines = [f"{name}: {record.error.removeprefix(f'{name}: ')}" for record in failed[:5]]
        if len(failed) > 5:
            lines.append(f"... and {len(failed) - 5} more failed units")
        if traced := next((record for record in failed if record.trace), None):
            where = UnitRecord.path(self.stage.folder, traced.pass_name, traced.unit)
            lines.append(
                f"this is a bug in Clozeline: please report it with the traceback in {where}"
            )

        error = PartialFailureError("\n".join(dict.fromkeys(lines)))
        codes = {record.exit_code for record in failed}
        if len(codes) == 1:
            error.exit_code = codes.pop()
        return error

    def _summarize(
        self, progress: Progress, seconds: float, previous: Mapping[str, Any], *, skipped: bool
    ) -> StageSummary:
        stage = self.stage
        folder = self.stage.folder
        records = list(self.iter_finished())
        counts = self.counts()
        with _explain_rerun(folder):
            stage.check(counts)
        if skipped and previous.get("counts") == counts:
            seconds = previous["seconds"]
        else:
            write_stage_report(stage, counts, records, seconds)

        size = sum(output["bytes"] for record in records for output in record.outputs.values())
        if not stage.recipe.keep_intermediates:
            shutil.rmtree(folder / TEMPORARY, ignore_errors=True)
        progress.stage_done(stage.name, seconds, skipped=skipped)
        row = StageRow("–")
        with Reporting(WORK_IS_DONE)(f"amounts of {stage.name}"):
            row = stage.explain_row(counts)
        return StageSummary(stage.name, counts, row, size, seconds, len(records), skipped)


def run_units(
    step: UnitRunner,
    units: Sequence[int],
    config: ExecutorConfig,
    tick: Callable[[], None],
    report: Callable[[str], None] = print,
    input_bytes: int | None = None,
) -> None:
    """Run every unit that is not done; tasks get the units in the given order.

    `tick` is called repeatedly in this process, `report` shows a line to the user, and
    `input_bytes` is the approximate size of the input.
    """
    if not units:
        return

    executor: Executor = config.component().build(config)
    deaths: Counter[int] = Counter()
    remaining = list(units)
    rounds_without_progress = 0

    while remaining:
        assignment = Assignment(step, remaining, min(config.tasks, len(remaining)), input_bytes)
        ends = executor.run(assignment, tick, report)
        lost = [unit for unit in remaining if not step.has_result(unit)]
        started = [unit for unit in lost if step.has_started(unit)]
        deaths.update(started)

        # Workers that die before they start a unit would die in every round.
        has_progress = started or len(lost) < len(remaining)
        rounds_without_progress = 0 if has_progress else rounds_without_progress + 1

        for unit in lost:
            if executor.final or max(deaths[unit], rounds_without_progress) > config.retries:
                task = assignment.task_of(unit)
                reason = ends.get(task, "its worker process died (killed, or out of memory)")
                step.mark_failed(unit, reason)

        remaining = [unit for unit in lost if not step.has_result(unit)]
