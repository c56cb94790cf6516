"""Run the stages of a recipe in order: keep finished units, verify counts, write reports."""

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Generic, cast

from clozeline.configuration.config import config_digest, flatten
from clozeline.errors import (
    ConfigurationError,
    IntegrityError,
    PartialFailureError,
    StorageError,
    plural,
)
from clozeline.files import publish, publish_json, publish_text, read_json, sweep
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.executors import Assignment, Executor
from clozeline.pipeline.execution.output_lock import hold_output
from clozeline.pipeline.execution.plan import PLAN_STAGE, Plan, load_plan, store_plan
from clozeline.pipeline.execution.progress import PlanRow, Progress, done_counter
from clozeline.pipeline.execution.report import earlier_report, write_stage_report
from clozeline.pipeline.execution.stages import (
    Pass,
    Stage,
    StageSummary,
    UnitKey,
    UnitRunner,
    stage_of,
    stages_of,
    writes_tokenizer,
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
    require_equal,
    unit_key,
)
from clozeline.pipeline.ingest.documents.files import DOCUMENTS_FOLDER
from clozeline.pipeline.recipe import ExecutorConfig, Recipe, recipe_text
from clozeline.pipeline.shards.quarantine import QUARANTINE
from clozeline.reporting import Reporting
from clozeline.terminal import duration, size_text

WORK_IS_DONE: Final = (
    "the outputs of the stages are complete; this is a bug in Clozeline: please report this line"
)
"""Message if the summary of finished work fails."""
# Files of a stage's folder that no record lists.
_UNRECORDED_FILES: Final = ("config.yaml", "plan.json", "report.json")
_OPTIONS: Final = "options"
"""Folder with the options of passes by their digests, in the folder of the records."""
_NEW: Final = "new"
"""Reason to run a unit that has no record."""
_INPUT_REASONS: Final = (_NEW, "input changed")
"""Reasons that the changes of the inputs say better."""
_MOST_CHANGES: Final = 3
"""Most changed keys of the options that a reason names."""


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
    for name in filter(None, (only, force)):
        if name not in names:
            raise ConfigurationError(
                f"the recipe has no '{name}' key; its stages are: {', '.join(names)}"
            )

    with hold_output(recipe.output_folder, progress.waiting):
        if only in (None, PLAN_STAGE) and PLAN_STAGE in names:
            plan = store_plan(recipe, verify=verify)
        else:
            plan = load_plan(recipe, verify=verify)

        input_bytes = plan.bytes
        provided = dict[str, tuple[str, int]]()
        losses = list[str]()
        known = KnownRecords()
        previews = list(preview_stages(recipe, plan, known.fork(), verify=verify, force=force))
        shown = [each for each in previews if only in (None, each.stage)]
        if any(each.changed for each in shown):
            rows = [each.row() for each in shown]
            progress.show_plan(describe_plan(plan), rows)
            if warning := warn_of_new_tokenizer(recipe, rows):
                progress.report(warning)

        for name, preview in zip(names, previews, strict=True):
            stage = stage_of(recipe, name, plan)
            run = StageRun(stage, known, verify=verify, force=name == force)
            if not any(each.changed for each in previews[: names.index(name) + 1]):
                run.states = list(preview.states)
            missing = "" if only in (None, name) else preview.find_missing()
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
        """Whether a unit must run, or may have to, or must be removed."""
        return not self.is_whole or any(state.changed or state.removed for state in self.states)

    def find_missing(self) -> str:
        """Return why the first incomplete unit must run; "" if the stage is complete."""
        for state in self.states:
            for unit in state.changed:
                why = state.reasons.get(unit, "what it reads must be made again")
                return f"{state.work.name}/{state.work.unit_name(unit)}: {why}"
        return "" if self.is_whole else "its units are not known yet"

    def row(self) -> PlanRow:
        """Return the row of the stage in the table of `--plan`."""
        units = sum(state.work.units for state in self.states)
        sure = sum(len(state.reasons) for state in self.states)
        most = sum(len(state.changed) for state in self.states)
        counts: Counter[str] = Counter()
        for state in self.states:
            counts.update(state.reasons.values())
        if self.changes:
            counts = Counter({why: n for why, n in counts.items() if why not in _INPUT_REASONS})
        is_first = self.changed and not any(state.has_records for state in self.states)
        reasons = [f"{why} ({count:,})" for why, count in counts.most_common(_MOST_CHANGES)]
        waits = ["what it reads is made again"] * (most > sure or not self.is_whole)
        why = ["first run"] if is_first else [*filter(None, [self.changes]), *reasons, *waits]

        # measured units stand for the others; without any, the size of the input decides
        measured = [state.cpu_seconds for state in self.states if state.has_records]
        share = most / units if units else 1
        seconds = sum(measured) if measured else self.seconds_per_mb * self.input_mb * share
        known = units - most
        return PlanRow(self.stage, units, known, sure, most, tuple(why), seconds)


def preview_stages(
    recipe: Recipe, plan: Plan, known: KnownRecords, *, verify: bool, force: str | None
) -> Iterator[StagePreview]:
    """Yield what a run would do in each stage, without running a unit."""
    parts = [f"{count:,} {kind}" for kind, count in plan.changes.items() if count]
    noun = "input" if sum(plan.changes.values()) == 1 else "inputs"
    changes = f"{', '.join(parts)} {noun}" if parts else ""

    for name in stages_of(recipe):
        stage = stage_of(recipe, name, plan)
        states = list[PassState]()
        is_whole = True
        try:
            states += StageRun(stage, known, verify=verify, force=name == force).preview()
        except (StorageError, IntegrityError):  # its passes depend on files of earlier stages
            is_whole = False
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
        self.known.forget_values()
        others = found.keys() - set(map(work.unit_name, range(work.units)))
        removed = list(filter(None, [found.pop(name) for name in others]))

        for unit in range(work.units):
            name = work.unit_name(unit)
            # most units share their options
            if not digest or work.options(unit) != options:
                options = work.options(unit)
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
            return _NEW
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
        old = flatten(read_json(self._options_path(before)) or {})
        new = flatten(dict(now))
        missing = object()
        names = [
            name
            for name in sorted({*old, *new})
            if old.get(name, missing) != new.get(name, missing)
        ]
        more = "" if len(names) <= _MOST_CHANGES else f" and {len(names) - _MOST_CHANGES} more"
        return f"{', '.join(names[:_MOST_CHANGES]) or 'options'}{more} changed"

    def _options_path(self, digest: str) -> Path:
        return self.stage.folder / RECORDS / _OPTIONS / f"{digest}.json"

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
        found |= {state.work.unit_name(unit): None for unit in state.changed}
        self.known.forget_values()

    def iter_finished(self) -> Iterator[UnitRecord]:
        """Yield the records of all units of the complete passes, in order."""
        for state in self.states:
            for unit in range(state.work.units):
                yield self.known.find(
                    self.stage.folder, state.work.name, state.work.unit_name(unit)
                )

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
            state = self._reuse_units(self.examine(work))
            for digest, options in state.options.items():
                if not (path := self._options_path(digest)).exists():
                    publish_json(path, options)
            for record in state.removed:
                record.remove(folder)
                skipped = False
            if state.reasons:
                if skipped and (warning := stage.warning()):
                    progress.report(warning)
                skipped = False
                self._run_changed(state, progress, input_bytes)
            self.states.append(state)

        if not skipped:
            self._remove_stale_files(progress)
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

        return replace(state, reasons=reasons)

    def _find_hollow(self, state: PassState) -> list[int]:
        """Return the units of a complete pass whose intermediate files were removed."""
        found = self.known.of_pass(self.stage.folder, state.work.name)
        return [
            unit
            for unit, key in state.keys.items()
            if (record := found[key.unit]) and record.lacks_intermediates(self.stage.folder)
        ]

    def _remove_stale_files(self, progress: Progress) -> None:
        """Remove files that no record lists, so that outputs of two configurations never mix."""
        folder = self.stage.folder
        listed = {folder / name for name in _UNRECORDED_FILES}
        for record in self.iter_finished():
            listed |= {folder / relative for relative in record.outputs}
            listed.add(UnitRecord.path(folder, record.pass_name, record.unit))
            listed.add(self._options_path(record.options))

        for path in folder.rglob("*"):
            if path.relative_to(folder).parts[0] != LOGS and path not in listed and path.is_file():
                path.unlink()
                if path.name == QUARANTINE:
                    progress.report(
                        f"{path} is removed: the blocks that it lists are written again"
                    )

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
            count_done = done_counter(self.stage.folder / RECORDS / work.name, names)
            run_units(
                runner,
                units,
                self.stage.recipe.executor,
                lambda: bar(count_done()),
                progress.report,
                input_bytes * len(units) // max(1, work.units),
            )

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
        records = list(self.iter_finished())
        counts = self.counts()
        with _explain_rerun(folder):
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
