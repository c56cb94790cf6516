"""Run the stages of a recipe in order: skip finished units, verify counts, write reports."""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Generic, cast

from clozeline.configuration.config import config_digest
from clozeline.errors import ConfigurationError, IntegrityError, PartialFailureError
from clozeline.files import publish, sweep
from clozeline.pipeline.execution.deciders import deciders_of
from clozeline.pipeline.execution.free_space import check_free_space
from clozeline.pipeline.execution.inputs import files_to_skip
from clozeline.pipeline.execution.output_lock import one_at_a_time
from clozeline.pipeline.execution.pending_units import PendingUnits
from clozeline.pipeline.execution.plan import PLAN_STAGE, Plan, freeze_plan, load_plan, require_input
from clozeline.pipeline.execution.plan_size import check_memory, check_plan_size
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.run_units import run_units
from clozeline.pipeline.execution.stage_keys import stage_key
from clozeline.pipeline.execution.stage_order import stage_of, stages_of
from clozeline.pipeline.execution.stage_records import StageRecords
from clozeline.pipeline.execution.stage_report import earlier_report, write_stage_report
from clozeline.pipeline.execution.stages import Pass, Stage, StageSummary
from clozeline.pipeline.execution.unit_record import (
    DOCUMENTS_FOLDER,
    LOGS,
    TEMPORARY,
    C,
    Counts,
    UnitRecord,
    add_counts,
    outputs_digest,
    require_equal,
)
from clozeline.pipeline.execution.unit_runner import UnitRunner
from clozeline.pipeline.recipe import Recipe, recipe_text
from clozeline.pipeline.shards.quarantine import QUARANTINE

# Files of a stage's folder that records do not list.
_OWN_FILES: Final = ("config.yaml", "plan.json", "report.json")
# Share of the expected bytes that is certain of a stage that drops no document: an objective may read one set of many.
_LEAST_WRITTEN: Final = 0.1


def run_recipe(
    recipe: Recipe, only: str | None, progress: Progress, summaries: list[StageSummary], *, verify: bool = False
) -> None:
    """Run all stages of a recipe, or one (`only`) whose earlier stages are complete.

    A summary is added to `summaries` for each stage that ends, also when units of a later stage fail; `verify` hashes
    inputs and finished files before units are skipped.
    """
    names = stages_of(recipe)
    if only is not None and only not in names:
        raise ConfigurationError(f"the recipe has no '{only}' key; its stages are: {', '.join(names)}")
    with one_at_a_time(recipe.output_folder, progress.waiting):
        starts = only in (None, PLAN_STAGE) and PLAN_STAGE in names
        if starts:
            require_input(recipe)
        plan = load_plan(recipe, verify=verify)
        check_plan_size(plan, [stage_of(recipe, name, plan) for name in names])
        if "encode" in names and not recipe.folder("encode").exists() and (warning := check_memory(recipe, plan)):
            progress.report(warning)
        if starts:
            freeze_plan(recipe, plan)
            if skipped := files_to_skip(recipe.input):
                progress.report_skips(skipped)
        run_stages(recipe, plan, only, progress, summaries, verify=verify)


def stage_runs(recipe: Recipe, plan: Plan, *, verify: bool) -> Iterator["StageRun[Any]"]:
    """Yield the runs of the stages in order; each must be complete before the next one is asked for."""
    upstream = plan.digest
    for name in stages_of(recipe):
        stage = stage_of(recipe, name, plan)
        run = StageRun(stage, stage_key(stage, upstream), verify)
        yield run
        upstream = run.digest(upstream)


def run_stages(
    recipe: Recipe,
    plan: Plan,
    only: str | None,
    progress: Progress,
    summaries: list[StageSummary],
    *,
    verify: bool = False,
) -> None:
    """Run the stages of a plan, or one of them, in an output folder that this process holds."""
    provided: dict[str, tuple[str, int]] = {}
    before = plan.bytes
    for run in stage_runs(recipe, plan, verify=verify):
        stage, name = run.stage, run.stage.name
        gap = "" if only in (None, name) else run.gap()
        if only in (None, name) or (gap and stage.made_when_needed):
            summaries.append(run.execute(progress, before))
            _check_handover(provided, stage, summaries[-1].counts)
            if summaries[-1].counts.get("documents_out") == 0:
                raise stage.nothing_left(summaries[-1].counts)
        elif gap:
            raise ConfigurationError(
                f"'{only}' needs '{name}', which is not complete ({gap}): run `clozeline {name}` with the "
                "same configuration first"
            )
        if only == name:
            break
        before = run.bytes() if stage.expansion() else before
        provided |= {what: (name, amount) for what, amount in stage.provides(run.counts()).items()}


def _check_handover(provided: Mapping[str, tuple[str, int]], stage: Stage[Any, Any], counts: Counts) -> None:
    """Check that a stage consumed what the nearest earlier stage provided."""
    for consumed in stage.consumes(counts):
        if consumed.name in provided:
            giver, amount = provided[consumed.name]
            times = f", {consumed.times} times" * (consumed.times > 1)
            with _complete(stage.folder):
                require_equal("run", f"{consumed.name} out of {giver}{times}", amount * consumed.times,
                              f"{consumed.name} into {stage.name}", consumed.amount)  # fmt: skip


@contextmanager
def _complete(folder: Path) -> Iterator[None]:
    """Add to an error about the sums of a stage, whose units are all complete, how the stage is made again."""
    try:
        yield
    except IntegrityError as error:
        raise IntegrityError(f"{error}; to make the stage again, remove {folder} and run the same command") from error


class StageRun(Generic[C]):
    """One stage of a run: find missing units and run them."""

    def __init__(self, stage: Stage[Any, C], key: str, verify: bool) -> None:
        self.stage = stage
        self.passes = list(stage.passes())
        self.runners = [UnitRunner(stage, work, key) for work in self.passes]
        self.verify = verify
        self.records = StageRecords(stage.folder)

    def missing(self) -> list[list[int]]:
        """Return the units to be made, per pass; an empty list when the stage is complete.

        Intermediates count only for a pass that a later incomplete pass still needs.
        """
        missing_units: list[list[int]] = []
        needed = False
        for work, runner in zip(reversed(self.passes), reversed(self.runners), strict=True):
            units = range(work.units if needed or not work.intermediate else 0)
            lacking = [unit for unit in units if self._gap(runner, unit, needed)]
            needed = needed or bool(lacking)
            missing_units.append(lacking)
        return missing_units[::-1] if needed else []

    def gap(self) -> str:
        """Return what the first missing unit lacks; "" when the stage is complete."""
        missing = self.missing()
        later = ((runner, units[0]) for runner, units in zip(self.runners[::-1], missing[::-1], strict=False) if units)
        return next((self._gap(runner, unit, False) for runner, unit in later), "")

    def _gap(self, runner: UnitRunner, unit: int, temporary: bool) -> str:
        record, folder = self.records.get(runner.work.name, unit), self.stage.folder
        if record is None or record.key != runner.key:
            path = UnitRecord.path(folder, runner.work.name, unit)
            return f"{path} is missing, damaged, or the record of another configuration"
        return record.gap(folder, temporary=temporary, verify=self.verify)

    def all_records(self) -> list[UnitRecord]:
        """Return the records of all passes, in order."""
        return [record for work in self.passes for record in self.records.of_pass(work.name)]

    def bytes(self) -> int:
        """Return the bytes of all outputs that later stages read: the documents of a stage that writes some."""
        folder = DOCUMENTS_FOLDER if self.stage.writes_documents else ""
        return sum(
            facts["bytes"]
            for record in self.all_records()
            for name, facts in record.outputs.items()
            if name.startswith(folder) and not name.startswith(f"{TEMPORARY}/")
        )

    def expected_bytes(self, missing: Sequence[Sequence[int]], before: int) -> tuple[int, int]:
        """Return about how many bytes the missing units will write, and how many at least.

        They follow from finished units of the same stage, or else from `before`, the bytes that it reads. A stage that
        writes documents may drop nearly all that it reads.
        """
        expected, key = 0, self.runners[0].key
        for work, units in zip(self.passes, missing, strict=False):
            finished = [record.bytes for record in self.records.of_pass(work.name) if record.key == key]
            if finished:
                expected += sum(finished) * len(units) // len(finished)
            elif units and not work.intermediate:
                expected = round(self.stage.expansion() * before)
                sure = self.stage.needs and not self.stage.writes_documents  # it reads all that an earlier stage wrote
                return expected, round(_LEAST_WRITTEN * expected) if sure else 0
        return expected, expected // 2

    def counts(self) -> C:
        """Return the sums over all records."""
        counts: Counts = {}
        for record in self.all_records():
            add_counts(counts, record.counts)
        return cast(C, counts)

    def _is_stale(self, record: UnitRecord) -> bool:
        """Return whether no unit of the present configuration has this record."""
        runner = next((each for each in self.runners if each.work.name == record.pass_name), None)
        return runner is None or record.unit >= runner.work.units or record.key != runner.key

    def _remove_stale_files(self, progress: Progress) -> None:
        """Remove files that no record lists: output of an earlier configuration must not mix with the new."""
        folder = self.stage.folder
        listed = {folder / relative for record in self.all_records() for relative in record.outputs}
        listed |= {folder / name for name in _OWN_FILES}
        for path in folder.rglob("*"):
            inside = path.relative_to(folder).parts[0]
            if path.is_file() and path not in listed and inside not in ("records", LOGS, TEMPORARY):
                path.unlink()
                if path.name == QUARANTINE:
                    progress.report_removal(path)

    def digest(self, upstream: str) -> str:
        """Return the digest of everything published up to and with this stage."""
        return config_digest({"upstream": upstream, "outputs": outputs_digest(self.all_records())})

    def execute(self, progress: Progress, before: int = 0) -> StageSummary:
        """Run missing units, then sum counts, write the report and remove intermediate files.

        `before` are the bytes that it reads, of the stage before it or of the inputs: they say how much space it needs.
        """
        start = time.monotonic()
        previous, missing = earlier_report(self.stage.folder / "report.json"), self.missing()
        folder, stale = self.stage.folder, list[UnitRecord]()
        if missing:  # find records of another configuration, which no sum and no manifest may hold; nothing changes yet
            stale = [record for record in self.records if self._is_stale(record)]
            warnings = [check_free_space(self.stage.name, folder, *self.expected_bytes(missing, before))]
            if self.stage.name == "encode":
                warnings.append(check_memory(self.stage.recipe, self.stage.plan, before))
            for warning in filter(None, warnings):
                progress.report(warning)
        with publish(folder / "config.yaml") as temporary:
            temporary.write_text(recipe_text(self.stage.recipe), encoding="utf-8")
        sweep(folder)
        for record in stale:
            self.records.remove(record.pass_name, [record.unit])
        if missing:
            self.records.remove_unreadable()
            self._remove_stale_files(progress)
        for work, runner, units in zip(self.passes, self.runners, missing, strict=False):
            failed = self._run_pass(work, runner, units, progress, before)
            if failed:
                self._raise(failed)
        return self._summarize(progress, time.monotonic() - start, previous, skipped=not missing)

    def _run_pass(
        self, work: Pass[C], runner: UnitRunner, units: Sequence[int], progress: Progress, before: int
    ) -> list[UnitRecord]:
        folder = self.stage.folder
        self.records.remove(work.name, units)
        title = self.stage.name if work.name == "main" else f"{self.stage.name} · {work.name}"
        with progress.bar(title, len(units)) as bar:
            pending = PendingUnits(folder, work.name, units)
            run_units(
                runner, units, self.stage.recipe.executor, lambda: bar(pending.count_done()), progress.report,
                before * len(units) // max(1, work.units),
            )  # fmt: skip
        self.records.read_again(work.name, units)
        failures = []
        for unit in units:
            record = self.records.get(work.name, unit)
            if record is None or record.key != runner.key:
                path = UnitRecord.path(folder, work.name, unit)
                raise IntegrityError(
                    f"{path}: expected the record of a unit that has just run, got one that this version cannot read: "
                    "see that all machines run the same version of Clozeline, then run the same command again"
                )
            failures.append(record)
        return [record for record in failures if record.status == "failed"]

    def _raise(self, failed: Sequence[UnitRecord]) -> None:
        name = self.stage.name
        lines = [f"{name}: {record.error.removeprefix(f'{name}: ')}" for record in failed[:5]]
        if len(failed) > 5:
            lines.append(f"... and {len(failed) - 5} more failed units")
        traces = [record.trace for record in failed if record.trace]
        if traces:
            where = UnitRecord.path(self.stage.folder, failed[0].pass_name, failed[0].unit)
            lines.append(f"this is a mistake in Clozeline: please report it with the traceback in {where}")
        error = PartialFailureError("\n".join(dict.fromkeys(lines)))
        codes = {record.exit_code for record in failed}
        if len(codes) == 1:
            error.exit_code = codes.pop()
        raise error

    def _summarize(
        self, progress: Progress, seconds: float, previous: Mapping[str, Any], *, skipped: bool
    ) -> StageSummary:
        folder, records = self.stage.folder, self.all_records()
        counts = self.counts()
        with _complete(folder):
            self.stage.check(counts)
        size = sum(facts["bytes"] for record in records for facts in record.outputs.values())
        if skipped and previous.get("counts") == counts:
            seconds = previous["seconds"]
        else:
            write_stage_report(folder, self.stage.name, counts, records, seconds, deciders_of(self.stage))
        if not self.stage.recipe.keep_intermediates:
            shutil.rmtree(folder / TEMPORARY, ignore_errors=True)
        summary = StageSummary(self.stage.name, counts, self.stage.row(counts), size, seconds, len(records), skipped)
        progress.stage_done(summary.name, seconds, skipped=skipped)
        return summary
