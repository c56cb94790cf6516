"""Run one stage: keep the units for which nothing changed, run the others, write the report."""

import math
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, Generic, cast

from clozeline.checksummed_json import add_checksum
from clozeline.configuration.config import flatten, to_data
from clozeline.errors import (
    ClozelineError,
    IntegrityError,
    PartialFailureError,
    StorageError,
    join_names,
)
from clozeline.files import publish, publish_json, publish_text, read_json, sweep
from clozeline.pipeline.execution.arguments import OPTIONS, Describer
from clozeline.pipeline.execution.contents import Contents
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.executors import Assignment, Executor
from clozeline.pipeline.execution.progress import Progress, RunningPass
from clozeline.pipeline.execution.report import read_report, time_made, write_stage_report
from clozeline.pipeline.execution.stages import (
    Pass,
    Stage,
    StageSummary,
    UnitRunner,
)
from clozeline.pipeline.execution.unit_inputs import SEPARATOR
from clozeline.pipeline.execution.unit_record import (
    LOGS,
    MARKER_ENDING,
    OTHER_CODE,
    RECORDS,
    Arguments,
    Counts,
    KnownRecords,
    NotMadeError,
    StageCounts,
    UnitRecord,
    add_counts,
    find_files,
    is_intermediate,
    options_path,
    remove_files,
)
from clozeline.pipeline.recipe import ExecutorConfig, load_recipe, recipe_text
from clozeline.reporting import Reporting

WORK_IS_DONE: Final = (
    "the outputs of the stages are complete; please report this line to whoever wrote the stage"
)
"""Message if the summary of finished work fails."""
_EXECUTION_KEYS: Final = {"output", "executor", "reuse", "keep_intermediates"}
"""Keys of a recipe that change no unit."""
_UNLISTED: Final = ("config.yaml", "plan.json", "report.json", LOGS, RECORDS)
"""Files and folders of a stage that no record lists."""
NEW: Final = "new"
"""Reason to run a unit that has no record."""
_MOST_NAMED_FILES: Final = 3
_MOST_CHANGES: Final = 3
"""Most changed keys of the options that a reason names."""


@dataclass(frozen=True)
class PassState:
    """The units of a pass: what they are given, and why some of them must run."""

    work: Pass[Any]
    arguments: Mapping[str, Arguments]
    reasons: Mapping[str, str]
    """why a unit must run"""
    waiting: Mapping[str, str]
    """units that read what other units must write first, and where these are"""
    reused: Mapping[str, Path]
    """units that the stage of another output has, and its folder"""
    removed: Sequence[UnitRecord]
    """records of units that the pass no longer has"""
    seconds: float | None
    """expected CPU seconds of the changed units, from the records of the pass; None if there are
    none"""

    @property
    def changed(self) -> list[str]:
        """Units that must run, or may have to."""
        return [*self.reasons, *self.waiting]

    @property
    def is_kept(self) -> bool:
        """Whether the pass is complete."""
        return not (self.reasons or self.waiting or self.reused or self.removed)


@contextmanager
def explain_rerun(folder: Path) -> Iterator[None]:
    """Add to an accounting error of a complete stage the advice how to run the stage again."""
    try:
        yield
    except IntegrityError as error:
        raise IntegrityError(
            f"{error}; to run the stage again, remove {folder} and run the same command"
        ) from error


class StageRun(Generic[StageCounts]):
    """One stage of a run: find the units that must run, and run them."""

    def __init__(
        self,
        stage: Stage[Any, StageCounts],
        known: KnownRecords,
        *,
        verify: bool = False,
        force: bool = False,
    ) -> None:
        self.stage = stage
        self.known = known
        self.verify = verify
        self.force = force
        self.states: list[PassState] = []
        """passes whose units are complete"""
        self.unnamed_sets: dict[str, list[UnitRecord]] = {}
        """records of published sets that the recipe no longer names, by name"""
        self.not_reused = Counter[Path]()
        """number of units of another output that are not taken, because other code made them"""
        self._describer = Describer()
        self._contents = Contents(stage, known, verify=verify)

    def _records(self, work: Pass[Any]) -> dict[str, UnitRecord | None]:
        return self.known.of_pass(self.stage.folder, work.name)

    def examine(self, work: Pass[StageCounts]) -> PassState:
        """Compare the units of a pass with their records."""
        self._contents.passes.add(work.name)
        found = self._records(work)
        arguments = {name: self._describer.describe(unit) for name, unit in work.units.items()}
        reasons: dict[str, str] = {}
        waiting: dict[str, str] = {}
        reused: dict[str, Path] = {}

        others = [found.pop(name) for name in found.keys() - work.units.keys()]
        for name, given in arguments.items():
            try:
                reason = self._find_change(found.get(name), given, self.stage.folder)
                taken = self._find_elsewhere(work, name, given) if reason else None
            except NotMadeError as error:
                waiting[name] = str(error)
                continue
            if taken is not None:
                reused[name], found[name] = taken
            elif reason:
                reasons[name] = reason

        removed = []
        for record in filter(None, others):
            if label := self._find_unnamed_set(record):
                self.unnamed_sets.setdefault(label, []).append(record)
            else:
                removed.append(record)

        if others or reused:
            self.known.forget_values()
        measured = {name: record.cpu_seconds for name, record in found.items() if record}
        weigh = self.stage.plan.weigh
        pace = sum(measured.values()) / weigh(measured) if measured else None
        seconds = pace and pace * weigh([*reasons, *waiting])
        return PassState(work, arguments, reasons, waiting, reused, removed, seconds)

    def _find_unnamed_set(self, record: UnitRecord) -> str:
        """Return the published set that a record belongs to if the recipe does not name it."""
        files = [Path(name) for name in record.outputs if not is_intermediate(name)]
        if not files or not (names := self.stage.set_names) or files[0].parts[0] in names:
            return ""
        is_published = (self.stage.folder / files[0].parent / "manifest.json").exists()
        return files[0].parts[0] if is_published else ""

    def _find_elsewhere(
        self, work: Pass[StageCounts], name: str, given: Arguments
    ) -> tuple[Path, UnitRecord] | None:
        """Return another output's stage and record of a unit that is current there."""
        for output in self.stage.recipe.reuse:
            folder = output / self.stage.name
            record = UnitRecord.read(UnitRecord.path(folder, work.name, name))
            if record is None or record.lacks_intermediates(folder):
                continue
            if not (change := self._find_change(record, given, folder)):
                return folder, record
            if change.startswith(OTHER_CODE):
                self.not_reused[output] += 1
        return None

    def _find_change(self, record: UnitRecord | None, given: Arguments, folder: Path) -> str:
        """Return why the record of a unit in the folder of a stage is not current; "" if it is.

        Raises:
            NotMadeError: what the unit reads is not known.
        """
        if self.force:
            return "forced"
        if record is None:
            return NEW
        if change := self._contents.find_change(record.reads):
            return change
        if record.arguments != given:
            return self._explain_arguments(record.arguments, given, folder)
        return record.find_missing_output(folder, verify=self.verify)

    def _explain_arguments(self, before: Arguments, now: Arguments, folder: Path) -> str:
        """Return which arguments have changed."""

        def expand(arguments: Arguments) -> dict[str, Any]:
            digest = arguments.get(OPTIONS, "")
            options = self._describer.options.get(digest) or read_json(options_path(folder, digest))
            return flatten({**arguments, **(options or {}), OPTIONS: "", "checksum": ""})

        old = expand(before)
        new = expand(now)
        changed = sorted(name for name in {*old, *new} if old.get(name, ...) != new.get(name, ...))
        reason = f"{join_names(changed, _MOST_CHANGES) or 'options'} changed"
        is_code = any(
            name == "version" or (name in old and name in new and f"custom.{algorithm}" not in new)
            for name in changed
            for where, _, algorithm in [name.partition(".")]
            if where in ("version", "versions")
        )
        # the recipe is the same, so that only the code can have other fields or keys; names below
        # other fields are data, such as files of a published tokenizer
        shapes = [
            {name if name.startswith("config.") else name.partition(".")[0] for name in each}
            for each in (old, new)
        ]
        is_code = is_code or (shapes[0] != shapes[1] and self._has_recipe_of(folder))
        return f"{OTHER_CODE}: {reason}" if is_code else reason

    def _has_recipe_of(self, folder: Path) -> bool:
        """Return whether the last run of a stage had this recipe, but for how and where it ran."""

        def compare() -> bool:
            try:
                before = to_data(load_recipe(folder / "config.yaml"))
            except (ClozelineError, OSError):  # it has keys that this version does not have
                return True
            now = to_data(self.stage.recipe)
            return all(
                before.get(name) == now.get(name)
                for name in (before.keys() | now.keys()) - _EXECUTION_KEYS
            )

        return self.known.once(("recipe", folder), compare)

    def preview(self) -> None:
        """Examine the passes as far as they are known, without running a unit.

        Units that must run are unknown to all that read them.
        """
        for work in self.stage.passes():
            state = self.examine(work)
            self._mark_changed(state)
            self.states.append(state)

    def _mark_changed(self, state: PassState) -> None:
        """Make the units that must run unknown to all that read them."""
        if state.changed:
            self._records(state.work).update(dict.fromkeys(state.changed))
            self.known.forget_values()

    @cached_property
    def finished(self) -> list[UnitRecord]:
        """The records of all units, in order, once all passes are complete."""
        found = (
            self._records(state.work).get(name)
            for state in self.states
            for name in state.work.units
        )
        return list(filter(None, found))

    @cached_property
    def counts(self) -> StageCounts:
        """The sums over all records, once all passes are complete."""
        report = read_report(self.stage.folder)
        if report.get("made") == time_made(self.finished):
            return cast(StageCounts, report["counts"])
        counts: Counts = {}
        for record in self.finished:
            add_counts(counts, record.counts)
        return cast(StageCounts, counts)

    def execute(self, progress: Progress) -> StageSummary:
        """Run the units that must run, then sum counts and write the report."""
        start = time.monotonic()
        stage = self.stage
        progress.begin(stage.name)
        folder = self.stage.folder
        previous = read_report(folder)
        skipped = True
        passes = () if self.states else stage.passes()
        config = partial(publish_text, folder / "config.yaml", recipe_text(stage.recipe))
        if self.states:
            config()

        for work in passes:
            state = self.examine(work)
            for record in state.removed:
                record.remove(folder)
            self._publish_options()
            if not self.states:  # in a new stage, the options say first that the folder is ours
                config()
            for unit, other in state.reused.items():
                self._take(work, unit, other)
            if state.reasons:
                if skipped and (warning := stage.warning()):
                    progress.report(warning)
                self._restore_intermediates(progress)
                self._run_changed(state, progress)
            skipped = skipped and state.is_kept
            self.states.append(state)

        if not (skipped := skipped and not (self._other_records or self._markers)):
            self._require_unchanged(self.finished)
            self._remove_leftovers(progress)
        return self._summarize(progress, time.monotonic() - start, previous, skipped=skipped)

    def _restore_intermediates(self, progress: Progress) -> None:
        """Run the units of earlier passes again whose files between passes were removed."""
        for state in self.states:
            records = self._records(state.work).items()
            lacking = [
                name
                for name, record in records
                if record and record.lacks_intermediates(self.stage.folder)
            ]
            self._run_pass(state, lacking, progress)

    def _run_changed(self, state: PassState, progress: Progress) -> None:
        """Run the units of a pass that must run, after removing what they and manifests hold."""
        # the records are read before they are marked
        found = self._records(state.work)
        before = [found.get(name) for name in state.reasons]
        self._mark_changed(state)
        done = {earlier.work.name for earlier in self.states}

        for work in self.stage.passes():
            if work.lists_units and work.name not in done:
                listed = self._records(work)
                before += [listed.get(name) for name in self.examine(work).changed]

        for record in filter(None, before):
            record.remove(self.stage.folder)
        self._run_pass(state, list(state.reasons), progress)

    def _publish_options(self) -> None:
        """Write the options that the records of the units name."""
        for digest, options in self._describer.options.items():
            if not (path := options_path(self.stage.folder, digest)).exists():
                publish_json(path, add_checksum(options))

    def _take(self, work: Pass[StageCounts], unit: str, other: Path) -> None:
        """Take a unit from the stage of another output."""
        folder = self.stage.folder
        if record := self._records(work)[unit]:
            for name in record.outputs:
                _link_or_copy(other / name, folder / name)
            record.save(folder)

    def _require_unchanged(self, records: Iterable[UnitRecord]) -> None:
        """Raise StorageError if a file of the user has changed since a unit read it."""
        for record in records:
            files = {
                address: digest
                for address, digest in record.reads.items()
                if address.startswith(f"file{SEPARATOR}")
            }
            if change := self._contents.find_change(files):
                raise StorageError(
                    f"{change} while {self.stage.name} read it: run the same command again"
                )

    @cached_property
    def _other_records(self) -> list[UnitRecord]:
        """The records of passes that the stage no longer has, once all passes are complete."""
        folder = self.stage.folder
        own = {OPTIONS, *(state.work.name for state in self.states)}
        names = [path.name for path in (folder / RECORDS).glob("*") if path.name not in own]
        found = [self.known.of_pass(folder, name).values() for name in names]
        return list(filter(None, chain.from_iterable(found)))

    @cached_property
    def _markers(self) -> list[Path]:
        """The markers of units that were killed, once all passes are complete."""
        return [*(self.stage.folder / RECORDS).glob(f"*/*{MARKER_ENDING}")]

    def _remove_leftovers(self, progress: Progress) -> None:
        """Remove what other passes and killed units have written, so that outputs never mix.

        All other files stay, because they are not ours.
        """
        folder = self.stage.folder
        for record in self._other_records:
            record.remove(folder)

        kept = chain(self.finished, *self.unnamed_sets.values())
        outputs = {name for record in kept for name in record.outputs}
        for marker in self._markers:
            with suppress(FileNotFoundError):  # a worker removes it after its record
                remove_files(folder, {*marker.read_text("utf-8").splitlines()} - outputs)
                marker.unlink()
        sweep(folder)

        others = [name for name in find_files(folder) if name not in outputs]
        if others := [name for name in others if Path(name).parts[0] not in _UNLISTED]:
            progress.report(
                f"{self.stage.name}: these files in {folder} are not of a run, and stay: "
                f"{join_names(others, _MOST_NAMED_FILES)}"
            )

    def _run_pass(self, state: PassState, units: Sequence[str], progress: Progress) -> None:
        """Run units of a pass and read their records; PartialFailureError if some failed."""
        if not units:
            return
        work = state.work
        runner = UnitRunner(self.stage, work, {unit: state.arguments[unit] for unit in units})
        found = self._records(work)
        for unit in units:
            found.pop(unit, None)
            runner.path(unit).unlink(missing_ok=True)

        running = RunningPass(self.stage, work.name, units)
        with progress.follow(running) as tick:
            run_units(
                runner,
                units,
                self.stage.recipe.executor,
                tick,
                progress.report,
                self.stage.plan.bytes * len(units) // len(work.units),
            )

        failed = list[UnitRecord]()
        for unit in units:
            # a shared file system may list a file later than it opens it
            record = running.records.get(unit) or UnitRecord.read(runner.path(unit))
            if record is None or record.arguments != state.arguments[unit]:
                raise IntegrityError(
                    f"{runner.path(unit)}: expected the record of a unit that has just run, got "
                    "one that this version cannot read: make sure that all machines run the same "
                    "version of Clozeline, then run the same command again"
                )
            found[unit] = record
            if record.status == "failed":
                failed.append(record)

        self.known.forget_values()
        if failed:
            raise self._failure_of(failed)
        self._require_unchanged(filter(None, running.records.values()))

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
        records = self.finished
        counts = self.counts
        with explain_rerun(folder):
            stage.check(counts)
        row = StageRow("–")
        with Reporting(WORK_IS_DONE)(f"amounts of {stage.name}"):
            row = stage.explain_row(counts)
        is_reported = skipped and previous.get("counts") == counts
        summary = StageSummary(
            stage.name,
            counts,
            row,
            sum(record.total_bytes for record in records),
            previous["seconds"] if is_reported else seconds,
            len(records),
            skipped,
        )
        if not is_reported:
            write_stage_report(folder, summary, records)

        if not stage.recipe.keep_intermediates:
            outputs = chain.from_iterable(record.outputs for record in records)
            remove_files(folder, filter(is_intermediate, outputs))
        done = "already complete" if skipped else f"done in {seconds:.1f} s"
        progress.report(f"{stage.name}: {done}")
        return summary


def _link_or_copy(source: Path, target: Path) -> None:
    """Publish a file under another name: as a hard link, else as a copy."""
    with publish(target) as temporary:
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)


def run_units(
    step: UnitRunner,
    units: Sequence[str],
    config: ExecutorConfig,
    tick: Callable[..., None],
    report: Callable[[str], None] = print,
    input_bytes: float = math.inf,
) -> None:
    """Run every unit that is not done; tasks get the units in the given order.

    `tick` is called repeatedly in this process, `report` shows a line to the user, and
    `input_bytes` is the approximate size of the inputs.
    """
    if not units:
        return

    executor: Executor = config.component().build(config)
    deaths: Counter[str] = Counter()
    remaining = list(units)
    retried = 0
    rounds_without_progress = 0

    while remaining:
        tasks = min(config.tasks or 1, len(remaining))
        assignment = Assignment(step, remaining, tasks, input_bytes)
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
                step.fail(unit, reason)

        remaining = [unit for unit in lost if not step.has_result(unit)]
        retried += len(remaining)
        tick(units_retried=retried, worker_deaths=deaths.total())
