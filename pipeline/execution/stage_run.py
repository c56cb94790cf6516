"""Run one stage: keep the units whose keys are current, run the others, write the report."""

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Generic, cast

from clozeline.configuration.config import config_digest, flatten
from clozeline.errors import (
    IntegrityError,
    PartialFailureError,
)
from clozeline.files import publish, publish_json, publish_text, read_json, sweep
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.executors import Assignment, Executor
from clozeline.pipeline.execution.progress import Progress, RunningPass
from clozeline.pipeline.execution.report import earlier_report, write_stage_report
from clozeline.pipeline.execution.stages import (
    Pass,
    Stage,
    StageSummary,
    UnitKey,
    UnitRunner,
)
from clozeline.pipeline.execution.unit_record import (
    LOGS,
    RECORDS,
    RUNNING,
    TEMPORARY,
    Counts,
    KnownRecords,
    NotMadeError,
    StageCounts,
    UnitRecord,
    add_counts,
    options_path,
    unit_key,
)
from clozeline.pipeline.ingest.documents.files import DOCUMENTS_FOLDER
from clozeline.pipeline.recipe import ExecutorConfig, recipe_text
from clozeline.reporting import Reporting

WORK_IS_DONE: Final = (
    "the outputs of the stages are complete; this is a bug in Clozeline: please report this line"
)
"""Message if the summary of finished work fails."""
# Files of a stage's folder that no record lists.
_UNRECORDED_FILES: Final = ("config.yaml", "plan.json", "report.json")
NEW: Final = "new"
"""Reason to run a unit that has no record."""
_MOST_CHANGES: Final = 3
"""Most changed keys of the options that a reason names."""


@dataclass(frozen=True)
class PassState:
    """The units of a pass: their keys, and why some of them must run."""

    work: Pass[Any]
    keys: Mapping[int, UnitKey]
    """keys of the units for which all that they read is known"""
    reasons: Mapping[int, str]
    """why a unit must run"""
    waiting: Collection[int]
    """units that read what other units must write first"""
    cpu_seconds: float
    """estimate for the units that must run, or may have to, from the records of the pass"""
    has_records: bool
    options: Mapping[str, Mapping[str, Any]]
    """options of the units by digest"""
    removed: Sequence[UnitRecord] = ()
    """records of units that the pass no longer has"""

    @property
    def changed(self) -> list[int]:
        """Units that must run, or may have to, in order."""
        return sorted({*self.reasons, *self.waiting})


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

    def examine(self, work: Pass[StageCounts]) -> PassState:
        """Compute the keys of the units of a pass, and compare them with the records."""
        keys: dict[int, UnitKey] = {}
        reasons: dict[int, str] = {}
        waiting: list[int] = []
        found = self.known.of_pass(self.stage.folder, work.name)
        by_digest: dict[str, Mapping[str, Any]] = {}
        options: Mapping[str, Any] = {}
        digest = ""

        # forget the units that the pass no longer has
        names = [*map(work.unit_name, range(work.units))]
        others = found.keys() - set(names)
        removed = list(filter(None, [found.pop(name) for name in others]))
        if others:
            self.known.forget_values()

        for unit, name in enumerate(names):
            # most units share their options
            of_unit = work.options(unit)
            if not digest or of_unit != options:
                options = of_unit
                digest = _digest_options(options)
                by_digest[digest] = options

            try:
                reads = work.reads(unit, self.known)
            except NotMadeError:
                waiting.append(unit)
                continue

            key = UnitKey(name, unit_key(name, digest, reads), digest, reads)
            keys[unit] = key
            if reason := self._reason_to_run(key, found.get(name), options):
                reasons[unit] = reason

        # a unit takes as long as last time, or as the others
        seconds = {name: record.cpu_seconds for name, record in found.items() if record}
        mean = sum(seconds.values()) / max(1, len(seconds))
        changed = [work.unit_name(unit) for unit in (*reasons, *waiting)]
        total = sum(seconds.get(name, mean) for name in changed)
        return PassState(work, keys, reasons, waiting, total, bool(seconds), by_digest, removed)

    def _reason_to_run(
        self, key: UnitKey, record: UnitRecord | None, options: Mapping[str, Any]
    ) -> str:
        """Return why a unit must run; "" if it is complete."""
        if self.force:
            return "forced"
        if record is None:
            return NEW
        if record.key == key.key:
            return record.find_missing_output(self.stage.folder, verify=self.verify)
        if record.options != key.options:
            return self._explain_options(record.options, options)
        labels = [
            label
            for label in sorted({*record.reads, *key.reads})
            if record.reads.get(label) != key.reads.get(label)
        ]
        return f"{', '.join(labels)} changed"

    def _explain_options(self, before: str, now: Mapping[str, Any]) -> str:
        """Return which options have changed."""
        old = flatten(read_json(options_path(self.stage.folder, before)) or {})
        new = flatten(dict(now))
        missing = object()
        names = [
            name
            for name in sorted({*old, *new})
            if old.get(name, missing) != new.get(name, missing)
        ]
        more = "" if len(names) <= _MOST_CHANGES else f" and {len(names) - _MOST_CHANGES} more"
        return f"{', '.join(names[:_MOST_CHANGES]) or 'options'}{more} changed"

    def preview(self) -> Iterator[PassState]:
        """Yield the passes as far as they are known, without running a unit.

        Units that must run are unknown to all that read them.
        """
        for work in self.stage.passes():
            state = self.examine(work)
            self._mark_changed(state)
            yield state

    def _mark_changed(self, state: PassState) -> None:
        """Make the units that must run unknown to all that read them."""
        found = self.known.of_pass(self.stage.folder, state.work.name)
        if changed := {state.work.unit_name(unit): None for unit in state.changed}:
            found |= changed
            self.known.forget_values()

    @cached_property
    def finished(self) -> list[UnitRecord]:
        """The records of all units, in order, once all passes are complete."""
        return [
            self.known.find(self.stage.folder, state.work.name, key.unit)
            for state in self.states
            for key in state.keys.values()
        ]

    def bytes(self) -> int:
        """Return the bytes that later stages read: the documents, or else all outputs."""
        return sum(
            record.bytes(DOCUMENTS_FOLDER * self.stage.writes_documents) for record in self.finished
        )

    @cached_property
    def counts(self) -> StageCounts:
        """The sums over all records, once all passes are complete."""
        counts: Counts = {}
        for record in self.finished:
            add_counts(counts, record.counts)
        return cast(StageCounts, counts)

    def execute(self, progress: Progress, input_bytes: int = 0) -> StageSummary:
        """Run the units that must run, then sum counts and write the report.

        `input_bytes` is the size of what the stage reads: outputs of the previous stage, or inputs.
        """
        start = time.monotonic()
        stage = self.stage
        folder = self.stage.folder
        previous = earlier_report(folder / "report.json")
        publish_text(folder / "config.yaml", recipe_text(stage.recipe))
        sweep(folder)
        skipped = True

        for work in () if self.states else stage.passes():
            examined = self.examine(work)
            state = self._reuse_units(examined)
            for digest, options in state.options.items():
                if not (path := options_path(self.stage.folder, digest)).exists():
                    publish_json(path, options)
            for record in state.removed:
                record.remove(folder)
            if state.reasons:
                if skipped and (warning := stage.warning()):
                    progress.report(warning)
                self._run_changed(state, progress, input_bytes)
            skipped = skipped and not (examined.reasons or state.removed)
            self.states.append(state)

        if not skipped:
            self._remove_stale_files()
        return self._summarize(progress, time.monotonic() - start, previous, skipped=skipped)

    def _run_changed(self, state: PassState, progress: Progress, input_bytes: int) -> None:
        """Run the units of a pass that must run, after restoring the files that they may read."""
        for earlier in self.states:
            self._run_pass(earlier, self._find_hollow(earlier), progress, input_bytes)

        # the records that name them are read before they are marked
        found = self.known.of_pass(self.stage.folder, state.work.name)
        before = [found.get(state.keys[unit].unit) for unit in state.reasons]
        self._mark_changed(state)
        done = {earlier.work.name for earlier in self.states}

        for work in self.stage.passes():
            if work.lists_units and work.name not in done:
                listing = self.examine(work)
                listed = self.known.of_pass(self.stage.folder, work.name)
                before += [listed.get(work.unit_name(unit)) for unit in listing.changed]

        for record in filter(None, before):
            record.remove(self.stage.folder)
        self._run_pass(state, sorted(state.reasons), progress, input_bytes)

    def _reuse_units(self, state: PassState) -> PassState:
        """Take units with equal keys from the outputs of `reuse`; return the state without them."""
        folder = self.stage.folder
        found = self.known.of_pass(folder, state.work.name)
        reasons = dict(state.reasons)

        for unit in () if self.force else state.reasons:
            key = state.keys[unit]
            for output in self.stage.recipe.reuse:
                other = output / self.stage.name
                record = UnitRecord.read(UnitRecord.path(other, state.work.name, key.unit))
                if (
                    record is not None
                    and record.key == key.key
                    and not record.find_missing_output(other, verify=self.verify)
                    and not record.lacks_intermediates(other)
                ):
                    for name in record.outputs:
                        _link_or_copy(other / name, folder / name)
                    record.save(folder)
                    found[key.unit] = record
                    del reasons[unit]
                    break

        if len(reasons) < len(state.reasons):
            self.known.forget_values()
        return replace(state, reasons=reasons)

    def _find_hollow(self, state: PassState) -> list[int]:
        """Return the units of a complete pass whose intermediate files were removed."""
        found = self.known.of_pass(self.stage.folder, state.work.name)
        return [
            unit
            for unit, key in state.keys.items()
            if (record := found[key.unit]) and record.lacks_intermediates(self.stage.folder)
        ]

    def _remove_stale_files(self) -> None:
        """Remove files that no record lists, so that outputs of two configurations never mix."""
        folder = self.stage.folder
        listed = {folder / name for name in _UNRECORDED_FILES}
        for record in self.finished:
            listed |= {folder / relative for relative in record.outputs}
            listed.add(UnitRecord.path(folder, record.pass_name, record.unit))
            listed.add(options_path(self.stage.folder, record.options))

        for path in folder.rglob("*"):
            if path.relative_to(folder).parts[0] != LOGS and path not in listed and path.is_file():
                path.unlink()

    def _run_pass(
        self, state: PassState, units: Sequence[int], progress: Progress, input_bytes: int
    ) -> None:
        """Run units of a pass and read their records; PartialFailureError if some failed."""
        if not units:
            return
        work = state.work
        runner = UnitRunner(self.stage, work, {unit: state.keys[unit] for unit in units})
        paths = {unit: runner.path(unit) for unit in units}
        found = self.known.of_pass(self.stage.folder, work.name)

        for unit, path in paths.items():
            found.pop(state.keys[unit].unit, None)
            path.unlink(missing_ok=True)

        title = self.stage.name if work.name == "main" else f"{self.stage.name} · {work.name}"
        with progress.bar(title, len(units)) as bar:
            names = {path.name for path in paths.values()}
            running = RunningPass(
                self.stage, self.stage.folder / RECORDS / work.name, names, work.name
            )

            def tick(*, now: bool = False) -> None:
                bar(running.count_done(now=now))
                progress.record_pass(running.describe())

            run_units(
                runner,
                units,
                self.stage.recipe.executor,
                tick,
                progress.report,
                input_bytes * len(units) // max(1, work.units),
            )
            tick(now=True)

        records = list[UnitRecord]()
        for unit, path in paths.items():
            record = UnitRecord.read(path)
            if record is None or record.key != state.keys[unit].key:
                raise IntegrityError(
                    f"{path}: expected the record of a unit that has just run, got one that this "
                    "version cannot read: make sure that all machines run the same version of "
                    "Clozeline, then run the same command again"
                )
            found[record.unit] = record
            records.append(record)

        self.known.forget_values()
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
        records = self.finished
        counts = self.counts
        with explain_rerun(folder):
            stage.check(counts)
        if skipped and previous.get("counts") == counts:
            seconds = previous["seconds"]
        else:
            options = {
                digest: each for state in self.states for digest, each in state.options.items()
            }
            write_stage_report(stage, counts, records, seconds, options)

        size = sum(output["bytes"] for record in records for output in record.outputs.values())
        shutil.rmtree(folder / RUNNING, ignore_errors=True)
        if not stage.recipe.keep_intermediates:
            shutil.rmtree(folder / TEMPORARY, ignore_errors=True)
        progress.stage_done(stage.name, seconds, skipped=skipped)
        row = StageRow("–")
        with Reporting(WORK_IS_DONE)(f"amounts of {stage.name}"):
            row = stage.explain_row(counts)
        return StageSummary(stage.name, counts, row, size, seconds, len(records), skipped)


def _digest_options(options: Mapping[str, Any]) -> str:
    """Return the digest of options; 1 and 1.0 are equal."""
    return config_digest(json.loads(json.dumps(options), parse_float=_parse_number))


def _parse_number(text: str) -> float:
    return int(float(text)) if float(text).is_integer() else float(text)


def _link_or_copy(source: Path, target: Path) -> None:
    """Publish a file under another name: as a hard link, else as a copy."""
    with publish(target) as temporary:
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)


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
